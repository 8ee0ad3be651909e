#include "core/rounds/factors.h"

#include <algorithm>

#include "core/base/status_macros.h"

namespace gdf::rounds {

absl::StatusOr<Expanded> Expand(const compress::LowRank& low_rank, absl::Span<const float> left,
                                absl::Span<const float> second, uint64_t seed) {
  Expanded out;
  GDF_ASSIGN_OR_RETURN(tensor::FlatBuffer basis, tensor::FlatBuffer::Zeros(left.size()));
  std::copy(left.begin(), left.end(), basis.data());
  low_rank.Orthonormalise(seed, basis.span());
  GDF_ASSIGN_OR_RETURN(out.mean, tensor::FlatBuffer::Zeros(low_rank.num_params()));
  low_rank.Accumulate(basis.span(), second, 1.0f, out.mean.span());
  GDF_ASSIGN_OR_RETURN(out.right, tensor::FlatBuffer::Zeros(low_rank.num_right()));
  low_rank.NextRight(second, out.right.span());
  return out;
}

}  // namespace gdf::rounds
