#include "core/schedule/step_shares.h"

#include <algorithm>
#include <limits>

namespace gdf::schedule {

void StepShares::Learn(const NodeId& node, uint64_t steps, double seconds) {
  if (steps == 0 || seconds <= 0) return;
  const double of_step = seconds / static_cast<double>(steps);
  const auto [known, first] = seconds_.emplace(node, of_step);
  if (!first) known->second = (known->second + of_step) / 2;
}

std::vector<int64_t> StepShares::Deal(absl::Span<const NodeId> members, int64_t whole) const {
  double fastest = std::numeric_limits<double>::infinity();
  for (const NodeId& member : members) {
    if (const auto known = seconds_.find(member); known != seconds_.end()) fastest = std::min(fastest, known->second);
  }
  const int64_t least = (whole + kLeast - 1) / kLeast;
  std::vector<int64_t> shares;
  for (const NodeId& member : members) {
    const auto known = seconds_.find(member);
    const bool slower = known != seconds_.end() && known->second > (1 + kSame) * fastest;
    const auto share = slower ? static_cast<int64_t>(static_cast<double>(whole) * fastest / known->second) : whole;
    shares.push_back(std::max(share, least));
  }
  return shares;
}

}  // namespace gdf::schedule
