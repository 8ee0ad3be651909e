#include "core/checkpoint/holders.h"

#include <algorithm>
#include <utility>

#include "core/base/hash.h"

namespace gdf::checkpoint {

std::vector<NodeId> HoldersOf(JobId job, absl::Span<const NodeId> members, size_t replicas) {
  std::vector<std::pair<Digest, NodeId>> ranked;
  for (const NodeId& member : members) {
    ranked.emplace_back(Sha256().Update("gdf holders 1").UpdateU64(job.value).Update(member.digest().span()).Finish(), member);
  }
  std::sort(ranked.begin(), ranked.end());
  std::vector<NodeId> holders;
  for (size_t i = 0; i < std::min(replicas, ranked.size()); ++i) holders.push_back(ranked[i].second);
  return holders;
}

}  // namespace gdf::checkpoint
