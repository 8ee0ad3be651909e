// How the elements of a delta are divided over owners, and a shard over frames.
#ifndef GDF_CORE_EXCHANGE_SHARD_PLAN_H_
#define GDF_CORE_EXCHANGE_SHARD_PLAN_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "core/compress/codec.h"

namespace gdf::exchange {

// Values of one frame: 1 MiB of float32, a multiple of every codec's block.
inline constexpr uint64_t kPieceValues = uint64_t{1} << 18;

// Elements [begin, end).
struct Range {
  uint64_t begin = 0;
  uint64_t end = 0;
  uint64_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  bool operator==(const Range&) const = default;
};

// Which elements each owner reduces.
class ShardPlan {
 public:
  // Equal shards, in order, cut at multiples of the codec's block; the last ones may be shorter or empty. `shards` > 0.
  ShardPlan(uint64_t num_values, uint64_t block, uint32_t shards);
  // In proportion to `shares`, whose sum is wire::kSharesWhole; in order, cut at multiples of the codec's block nearest to it.
  ShardPlan(uint64_t num_values, uint64_t block, absl::Span<const uint32_t> shares);
  // Every owner has all elements.
  static ShardPlan Whole(uint64_t num_values);

  bool whole() const { return whole_; }
  Range shard(uint32_t index) const;
  uint64_t num_pieces(uint32_t index) const;
  Range piece(uint32_t index, uint64_t piece) const;  // of the whole delta

 private:
  ShardPlan() = default;

  std::vector<uint64_t> cuts_;  // shard i: [cuts_[i], cuts_[i + 1])
  bool whole_ = false;
};

// Where the packed form of `range` lies in the packed form of all `num_values`.
inline Range PackedRange(const compress::Codec& codec, const Range& range) {
  return {codec.PackedSize(range.begin), codec.PackedSize(range.end)};
}

}  // namespace gdf::exchange

#endif  // GDF_CORE_EXCHANGE_SHARD_PLAN_H_
