#include "core/schedule/recruits.h"

#include <algorithm>

#include "absl/algorithm/container.h"

namespace gdf::schedule {

void Recruits::Follow(JobId job, const std::vector<NodeId>& members, absl::Duration now) {
  std::map<NodeId, Past>& nodes = past_[job];
  for (const NodeId& member : members) {
    Past& past = nodes[member];
    if (!past.member) past = {true, now, past.left};
  }
  for (auto& [node, past] : nodes) {
    if (!past.member || absl::c_linear_search(members, node)) continue;
    past = {false, now, now - past.since >= kForgotten ? 1 : past.left + 1};
  }
}

void Recruits::Keep(const std::vector<JobId>& jobs) {
  std::erase_if(past_, [&](const auto& entry) { return !absl::c_binary_search(jobs, entry.first); });
}

absl::Duration Recruits::CalledAgain(const Past& past) {
  absl::Duration pause = absl::ZeroDuration();
  for (int left = past.left; left > 1 && pause < kLongestPause; --left) {
    pause = std::max(kFirstPause, 2 * pause);
  }
  return past.since + std::min(pause, kLongestPause);
}

std::vector<NodeId> Recruits::Choose(const Vacancy& vacancy, absl::Duration now) const {
  std::vector<NodeId> chosen;
  const auto of_job = past_.find(vacancy.job);
  for (const NodeId& node : vacancy.candidates) {
    if (of_job != past_.end()) {
      const auto past = of_job->second.find(node);
      if (past != of_job->second.end() && (past->second.member || now < CalledAgain(past->second))) continue;
    }
    chosen.push_back(node);
  }
  std::stable_partition(chosen.begin(), chosen.end(),
                        [&](const NodeId& node) { return absl::c_binary_search(vacancy.was_member, node); });
  chosen.resize(std::min(chosen.size(), vacancy.places));
  return chosen;
}

absl::Duration Recruits::Next(absl::Duration now) const {
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& [job, nodes] : past_) {
    for (const auto& [node, past] : nodes) {
      if (!past.member && CalledAgain(past) > now) next = std::min(next, CalledAgain(past));
    }
  }
  return next;
}

}  // namespace gdf::schedule
