#include "core/schedule/losses.h"

#include <algorithm>

#include "absl/algorithm/container.h"

namespace gdf::schedule {
void Losses::Hear(const NodeId& from, const std::vector<NodeId>& lost, absl::Duration now) {
  for (const NodeId& node : lost) heard_[node][from] = now;
}

bool Losses::Says(const NodeId& from, const NodeId& lost, absl::Duration now) const {
  const auto of_lost = heard_.find(lost);
  if (of_lost == heard_.end()) return false;
  const auto when = of_lost->second.find(from);
  return when != of_lost->second.end() && now - when->second <= kLifetime;
}

std::vector<NodeId> Losses::Staying(const Group& group, absl::Duration now) const {
  const size_t others = group.members.size() - 1;
  const size_t enough = std::max<size_t>(2, others / 2 + 1);
  std::vector<NodeId> staying;
  for (const NodeId& member : group.members) {
    const size_t voices = std::count_if(group.members.begin(), group.members.end(), [&](const NodeId& from) {
      return from != member && Says(from, member, now);
    });
    if (absl::c_linear_search(group.online, member) && !Says(member, member, now) && voices < enough) staying.push_back(member);
  }
  if (!absl::c_linear_search(staying, group.lead)) return staying;
  for (const NodeId& member : group.members) {
    if (2 * (staying.size() - 1) <= group.placed) break;
    if (Says(group.lead, member, now)) std::erase(staying, member);
  }
  return staying;
}

}  // namespace gdf::schedule
