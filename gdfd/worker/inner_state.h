// The byte form of a trainer's inner state: docs/formats/inner-state.md. Needs no libtorch.
#ifndef GDF_GDFD_WORKER_INNER_STATE_H_
#define GDF_GDFD_WORKER_INNER_STATE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/config/job_spec.h"
#include "core/data/sampler.h"

namespace gdf::worker {

struct InnerState {
  static constexpr size_t kHeaderBytes = 64;

  config::InnerOptimizer optimizer = config::InnerOptimizer::kAdamW;
  int64_t step = 0;  // inner steps done
  data::Cursor cursor = {};
  uint64_t num_moments = 0;  // 2: AdamW, 1: SGD with momentum, 0: SGD without
  uint64_t num_params = 0;

  // Bytes of header and moments, [num_params] float32 each.
  uint64_t num_bytes() const { return kHeaderBytes + num_moments * num_params * sizeof(float); }

  std::array<uint8_t, kHeaderBytes> Header() const;

  // Reads the header of a state, which is not trusted, that must have the optimiser and sizes of
  // `expected`. kInvalidArgument says what differs.
  static absl::StatusOr<InnerState> ReadHeader(absl::Span<const uint8_t> in,
                                               const InnerState& expected);

  // Checks values of moment `index`, which are not trusted. kInvalidArgument when one is NaN or
  // infinite or, in AdamW's second moment, negative.
  static absl::Status CheckMoment(size_t index, absl::Span<const uint8_t> values);

  // A state is moved in pieces. `piece` is what lies at `offset` of it: calls
  // visit(moment, first, part) for each part of the moments in it, `first` being the moment's
  // element at which the part begins. What is of the header is passed over.
  // The offset and length of a piece are multiples of four.
  template <typename Byte, typename Visit>
  absl::Status VisitMoments(uint64_t offset, absl::Span<Byte> piece, Visit visit) const {
    const uint64_t moment_bytes = num_params * sizeof(float);
    for (size_t moment = 0; moment < num_moments; ++moment) {
      const uint64_t begin = kHeaderBytes + moment * moment_bytes;
      const uint64_t from = std::max(begin, offset);
      const uint64_t to = std::min(begin + moment_bytes, offset + piece.size());
      if (from >= to) continue;
      const absl::Status visited =
          visit(moment, (from - begin) / sizeof(float), piece.subspan(from - offset, to - from));
      if (!visited.ok()) return visited;
    }
    return absl::OkStatus();
  }
};

}  // namespace gdf::worker

#endif  // GDF_GDFD_WORKER_INNER_STATE_H_
