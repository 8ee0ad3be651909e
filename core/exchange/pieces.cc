#include "core/exchange/pieces.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace gdf::exchange {

Pieces::Pieces(const ShardPlan& plan, uint32_t members, absl::Span<const uint32_t> lost)
    : owned_(members) {
  GDF_CHECK(lost.size() < members);
  const uint32_t shards = plan.whole() ? 1 : members;
  for (uint32_t shard = 0; shard < shards; ++shard) {
    for (uint64_t p = 0; p < plan.num_pieces(shard); ++p) {
      owned_[shard].push_back(static_cast<uint32_t>(ranges_.size()));
      ranges_.push_back(plan.piece(shard, p));
    }
  }
  if (plan.whole()) std::fill(owned_.begin() + 1, owned_.end(), std::vector<uint32_t>(owned_[0]));
  std::vector<uint32_t> left(members);
  for (uint32_t i = 0; i < members; ++i) left[i] = i;
  for (const uint32_t member : lost) {
    left.erase(std::find(left.begin(), left.end(), member));
    const std::vector<uint32_t> orphans = std::exchange(owned_[member], {});
    for (size_t i = 0; i < orphans.size() && !plan.whole(); ++i) {
      owned_[left[i * left.size() / orphans.size()]].push_back(orphans[i]);
    }
  }
  for (std::vector<uint32_t>& pieces : owned_) std::sort(pieces.begin(), pieces.end());
}

}  // namespace gdf::exchange
