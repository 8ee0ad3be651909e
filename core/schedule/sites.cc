#include "core/schedule/sites.h"

#include <algorithm>

namespace gdf::schedule {

void Sites::Learn(const NodeId& member, const std::vector<NodeId>& near) {
  near_[member] = std::set<NodeId>(near.begin(), near.end());
}

bool Sites::Near(const NodeId& a, const NodeId& b) const {
  const auto said = [this](const NodeId& by, const NodeId& of) {
    const auto it = near_.find(by);
    return it != near_.end() && it->second.count(of) > 0;
  };
  return said(a, b) && said(b, a);
}

std::vector<uint32_t> Sites::Of(absl::Span<const NodeId> members) const {
  std::vector<std::vector<NodeId>> sites;
  std::vector<uint32_t> of;
  for (const NodeId& member : members) {
    const auto fits = [&](const std::vector<NodeId>& site) {
      return std::all_of(site.begin(), site.end(), [&](const NodeId& other) { return Near(member, other); });
    };
    const auto site = std::find_if(sites.begin(), sites.end(), fits);
    of.push_back(static_cast<uint32_t>(site - sites.begin()));
    if (site == sites.end()) {
      sites.push_back({member});
    } else {
      site->push_back(member);
    }
  }
  return of;
}

bool WorthGoingBySites(absl::Span<const uint32_t> sites) {
  const std::set<uint32_t> numbers(sites.begin(), sites.end());
  return numbers.size() > 1 && numbers.size() < sites.size();
}

}  // namespace gdf::schedule
