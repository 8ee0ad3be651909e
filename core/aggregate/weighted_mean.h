// The weighted mean of packed deltas. Element-wise and in member order, so that a result does not
// depend on how elements are divided over shards, owners or threads.
#ifndef GDF_CORE_AGGREGATE_WEIGHTED_MEAN_H_
#define GDF_CORE_AGGREGATE_WEIGHTED_MEAN_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/compress/codec.h"

namespace gdf::aggregate {

constexpr size_t kMaxContributions = 65536;  // members of one round
constexpr float kMaxWeight = 1e14f;          // tokens of a round, of all members at a site; far from overflow of a sum

// kInvalidArgument naming the member when there are no weights or too many, or one is not finite,
// not above 0 or above kMaxWeight.
absl::Status CheckWeights(absl::Span<const float> weights);

// Sums the contributions to one range of elements, in member order, into a buffer of the caller:
//
//   acc = 0;  acc = acc + weight[0] * x[0];  acc = acc + weight[1] * x[1];  ...
//   mean = acc / (weight[0] + weight[1] + ...)
//
// every operation rounded to float32, the weights added from member 0 up. Not thread-safe; ranges
// are independent, so each may have an accumulator and a thread of its own.
class WeightedMean {
 public:
  // Zeroes `acc`, which holds sums, later the mean; it and `codec` must outlive the accumulator.
  // One weight a member, by member index. Errors as CheckWeights.
  static absl::StatusOr<WeightedMean> Create(const compress::Codec* codec,
                                             absl::Span<const float> weights,
                                             absl::Span<float> acc);

  // Adds the contribution of member `member`, the packed form of [acc.size()] values, which is not
  // trusted. kFailedPrecondition when `member` is not next(); kInvalidArgument naming the member
  // when the codec refuses the bytes, after which acc is spoilt and only Reset helps.
  absl::Status Add(size_t member, absl::Span<const uint8_t> packed);

  // Divides by the total weight; `acc` then holds the mean. kFailedPrecondition when members are
  // missing or it was called before; kInvalidArgument when a mean is not finite.
  absl::Status Finish();

  // Begins again from zero with the same members.
  void Reset();

  // Index of the member whose turn it is.
  size_t next() const { return next_; }

 private:
  WeightedMean(const compress::Codec* codec, absl::Span<const float> weights, absl::Span<float> acc)
      : codec_(codec), weights_(weights.begin(), weights.end()), acc_(acc) {}

  const compress::Codec* codec_;
  std::vector<float> weights_;
  absl::Span<float> acc_;
  size_t next_ = 0;
  bool usable_ = true;  // false once spoilt or finished
};

}  // namespace gdf::aggregate

#endif  // GDF_CORE_AGGREGATE_WEIGHTED_MEAN_H_
