#include "core/base/rendezvous.h"

#include <algorithm>
#include <utility>

#include "core/base/hash.h"

namespace gdf {

std::vector<NodeId> RendezvousOrder(std::string_view key, absl::Span<const NodeId> nodes) {
  std::vector<std::pair<Digest, NodeId>> ranked;
  for (const NodeId& node : nodes) ranked.emplace_back(Sha256().Update(key).Update(node.digest().span()).Finish(), node);
  std::sort(ranked.begin(), ranked.end());
  std::vector<NodeId> order;
  for (const auto& [rank, node] : ranked) order.push_back(node);
  return order;
}

}  // namespace gdf
