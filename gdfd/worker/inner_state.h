// The byte form of a trainer's inner state: docs/formats/inner-state.md. Needs no libtorch.
#ifndef GDF_GDFD_WORKER_INNER_STATE_H_
#define GDF_GDFD_WORKER_INNER_STATE_H_

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
  static uint64_t ByteSize(uint64_t num_moments, uint64_t num_params) {
    return kHeaderBytes + num_moments * num_params * sizeof(float);
  }

  // Writes the header. kInvalidArgument when `out` is not ByteSize long.
  absl::Status WriteHeader(absl::Span<uint8_t> out) const;

  // Reads a state, which is not trusted, that must have the optimiser and sizes of `expected`.
  // kInvalidArgument says what differs, or which moment holds NaN or infinity (or, AdamW's second,
  // a negative value).
  static absl::StatusOr<InnerState> Read(absl::Span<const uint8_t> in, const InnerState& expected);

  // Where moment `index` lies in a state.
  template <typename Byte>
  absl::Span<Byte> MomentBytes(absl::Span<Byte> state, size_t index) const {
    const size_t bytes = num_params * sizeof(float);
    return state.subspan(kHeaderBytes + index * bytes, bytes);
  }
};

}  // namespace gdf::worker

#endif  // GDF_GDFD_WORKER_INNER_STATE_H_
