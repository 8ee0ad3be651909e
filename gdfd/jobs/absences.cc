#include "gdfd/jobs/absences.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"

namespace gdf::jobs {

std::vector<wire::JobEvent> Absences::Update(const std::vector<state::Job>& jobs,
                                             absl::Duration now) {
  std::vector<wire::JobEvent> events;
  const auto tell = [&](JobId job, wire::Severity severity, const NodeId& node,
                        std::string_view what, absl::Duration lasted) {
    events.push_back({job, self_, severity,
                      absl::StrCat("node ", node.Short(), ToAbsl(what), HumanDuration(lasted))});
  };
  std::map<std::pair<JobId, NodeId>, Absence> absences;  // those that ended otherwise are forgotten
  for (const state::Job& job : jobs) {
    if (job.phase != state::JobPhase::kRunning) continue;
    for (const NodeId& member : job.members) {
      const auto known = absences_.find({job.id, member});
      Absence absence = known == absences_.end() ? Absence{now} : known->second;
      const absl::Duration lasted = now - absence.since;
      if (online_(member)) {
        if (absence.told) {
          tell(job.id, wire::Severity::kInfo, member, " is online again after ", lasted);
        }
        continue;
      }
      if (!absence.told && lasted >= kGrace) {
        absence.told = true;
        tell(job.id, wire::Severity::kWarning, member, " has not been online for ", lasted);
      }
      absences.emplace(std::make_pair(job.id, member), absence);
    }
  }
  absences_ = std::move(absences);
  return events;
}

bool Absences::Told(JobId job, const NodeId& member) const {
  const auto absence = absences_.find({job, member});
  return absence != absences_.end() && absence->second.told;
}

absl::Duration Absences::Next() const {
  absl::Duration next = absl::InfiniteDuration();
  for (const auto& [where, absence] : absences_) {
    if (!absence.told) next = std::min(next, absence.since + kGrace);
  }
  return next;
}

}  // namespace gdf::jobs
