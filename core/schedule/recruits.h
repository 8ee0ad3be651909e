// Which nodes are called to running jobs that have fewer members than they may have: those that were members before come
// first, as they have the job's inputs. A pure function of what it is told and of the time, so that a test needs no network.
//
//   recruits.Follow(job, members, now);                            // of every running job, before each decision
//   for (NodeId node : recruits.Choose(vacancy, now)) ...
#ifndef GDF_CORE_SCHEDULE_RECRUITS_H_
#define GDF_CORE_SCHEDULE_RECRUITS_H_

#include <cstddef>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "core/base/ids.h"

namespace gdf::schedule {

// On one thread. Times are monotonic.
class Recruits {
 public:
  // A node that has left a job n times within kForgotten of joining it is called again after 0, kFirstPause,
  // 2 · kFirstPause, 4 · kFirstPause, ..., at most kLongestPause.
  static constexpr absl::Duration kFirstPause = absl::Seconds(30);
  static constexpr absl::Duration kLongestPause = absl::Hours(1);
  static constexpr absl::Duration kForgotten = absl::Hours(1);

  struct Vacancy {
    JobId job;
    size_t places = 0;                // that nobody has, or is called to
    std::vector<NodeId> candidates;   // that could take part now, the most suitable first
    std::vector<NodeId> was_member;   // of any epoch; in order
  };

  // `members` are in `job` at `now`: who was and is no more has left.
  void Follow(JobId job, const std::vector<NodeId>& members, absl::Duration now);
  // Forgets jobs but these, which are in order.
  void Keep(const std::vector<JobId>& jobs);

  std::vector<NodeId> Choose(const Vacancy& vacancy, absl::Duration now) const;
  // When a node's pause ends next; InfiniteDuration: none has one.
  absl::Duration Next(absl::Duration now) const;

 private:
  struct Past {
    bool member = false;
    absl::Duration since = absl::ZeroDuration();  // it is, or has left
    int left = 0;
  };
  static absl::Duration CalledAgain(const Past& past);

  std::map<JobId, std::map<NodeId, Past>> past_;
};

}  // namespace gdf::schedule

#endif  // GDF_CORE_SCHEDULE_RECRUITS_H_
