// The outer step of a round whose deltas went as low-rank factors (docs/formats/low-rank.md). Internal to the module.
#ifndef GDF_CORE_ROUNDS_FACTORS_H_
#define GDF_CORE_ROUNDS_FACTORS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/compress/low_rank.h"
#include "core/tensor/flat_buffer.h"

namespace gdf::rounds {

// The right factors that the next round begins with: the end of a state's momentum.
template <typename T>
absl::Span<T> RightFactors(const compress::LowRank& low_rank, absl::Span<T> momentum) {
  return momentum.subspan(momentum.size() - low_rank.num_right());
}

// What the means of both passes stand for.
struct Expanded {
  tensor::FlatBuffer mean;   // of the deltas, [num_params]
  tensor::FlatBuffer right;  // of the next round
};
// `left`, `second`: as the exchanges gave them; `seed`: as in every member's second pass. kResourceExhausted.
absl::StatusOr<Expanded> Expand(const compress::LowRank& low_rank, absl::Span<const float> left,
                                absl::Span<const float> second, uint64_t seed);

}  // namespace gdf::rounds

#endif  // GDF_CORE_ROUNDS_FACTORS_H_
