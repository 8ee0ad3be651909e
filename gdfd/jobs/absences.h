// Which members of running jobs the coordinator does not see, and what of it a job's events are to
// say: that a member is not online once that has lasted, and that it is again only of one of which
// that was said, so that a link that comes and goes does not fill the record.
#ifndef GDF_GDFD_JOBS_ABSENCES_H_
#define GDF_GDFD_JOBS_ABSENCES_H_

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "core/base/ids.h"
#include "core/state/records.h"
#include "core/wire/state_commands.h"

namespace gdf::jobs {

// On one thread.
class Absences {
 public:
  // Longer than a node takes to begin anew; a job has mostly gone on without it by then, and said so.
  static constexpr absl::Duration kGrace = absl::Seconds(30);

  // `self` is the node that tells. `online`: whether it sees a member.
  Absences(NodeId self, std::function<bool(const NodeId&)> online)
      : self_(self), online_(std::move(online)) {}

  // What is to be told at `now`, which never goes back; of `jobs` the running ones count.
  std::vector<wire::JobEvent> Update(const std::vector<state::Job>& jobs, absl::Duration now);
  // Whether it was told that `member` of `job` is not online, and it still is not.
  bool Told(JobId job, const NodeId& member) const;
  // When there will be something to tell if nothing changes; InfiniteDuration: never.
  absl::Duration Next() const;

 private:
  struct Absence {
    absl::Duration since;
    bool told = false;
  };
  const NodeId self_;
  const std::function<bool(const NodeId&)> online_;
  std::map<std::pair<JobId, NodeId>, Absence> absences_;
};

}  // namespace gdf::jobs

#endif  // GDF_GDFD_JOBS_ABSENCES_H_
