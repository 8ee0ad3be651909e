// The parameters as fragments that are exchanged one after the other (Streaming DiLoCo, arXiv:2501.18512): contiguous,
// in layout order, and of lengths that differ by at most kUnit.
//
//   GDF_ASSIGN_OR_RETURN(Fragments fragments, Fragments::Create(layout.num_params(), spec.rounds.fragments));
//   absl::Span<float> third = fragments.Slice(theta, 2);
#ifndef GDF_CORE_TRAIN_FRAGMENTS_H_
#define GDF_CORE_TRAIN_FRAGMENTS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/config/codec_spec.h"

namespace gdf::train {

class Fragments {
 public:
  // Each begins at a multiple of it, so that no codec's block or chunk is cut.
  static constexpr uint64_t kUnit = config::CodecSpec::kMaxBlock;
  static_assert(kUnit % config::CodecSpec::kChunk == 0);

  // kInvalidArgument unless `count` is 1 or such that every fragment has an element.
  static absl::StatusOr<Fragments> Create(uint64_t num_params, uint64_t count);

  uint64_t count() const { return count_; }
  uint64_t begin(uint64_t fragment) const;
  uint64_t size(uint64_t fragment) const { return begin(fragment + 1) - begin(fragment); }

  // The part of a [num_params] buffer that `fragment`, below count(), fills.
  template <typename T>
  absl::Span<T> Slice(absl::Span<T> flat, uint64_t fragment) const {
    return flat.subspan(begin(fragment), size(fragment));
  }

 private:
  Fragments(uint64_t num_params, uint64_t count) : num_params_(num_params), count_(count) {}

  uint64_t num_params_;
  uint64_t count_;
};

}  // namespace gdf::train

#endif  // GDF_CORE_TRAIN_FRAGMENTS_H_
