// Who comes to running jobs and who leaves them at the end of a round, on a coordinator: calls nodes that could take part to
// jobs that have fewer members than they may, takes them in once they are ready, and leaves out those whose owners have
// paused them, unless the job would have too few. core/schedule chooses; commands record it.
//
//   call      the record says so; the node fetches the inputs and loads the job (JobTask)
//   ready     the node says so: jobs.request_epoch
//   join      the next epoch is with it, opened once another round is reported or when members ask for one
//   dismiss   it went offline, its owner has paused it, or its place is taken
#ifndef GDF_GDFD_JOBS_RECRUITER_H_
#define GDF_GDFD_JOBS_RECRUITER_H_

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "core/base/task.h"
#include "core/membership/membership.h"
#include "core/schedule/placement.h"
#include "core/schedule/recruits.h"
#include "core/state/state.h"
#include "core/wire/membership_messages.h"

namespace gdf::jobs {

// On the executor.
class Recruiter {
 public:
  static constexpr int kMaxFailures = 3;

  // All outlive it. `present`: whether a node is online, or may still come. `lost`: whether a member has not been for so
  // long that another may have its place.
  Recruiter(const Clock& clock, state::State& state, membership::Membership& membership,
            std::function<bool(const NodeId&)> present, std::function<bool(JobId, const NodeId&)> lost)
      : clock_(clock),
        state_(state),
        membership_(membership),
        present_(std::move(present)),
        lost_(std::move(lost)) {}

  // What `from` says, which is called to `job` or has just left it, or the lead says of it: that it is ready; or, naming it as
  // lost, why it cannot take part, which excludes it when that is for good, or when it has failed kMaxFailures times.
  Task<absl::Status> Hear(state::Job job, NodeId from, wire::EpochCall call);
  // `staying` without those that have stopped, with those that are ready to join `job`, in the order of epochs; at most `max`.
  std::vector<NodeId> WithReady(const state::Job& job, int64_t max, std::vector<NodeId> staying) const;
  // Decides anew about all of `jobs`. `kept`, in order: nodes that are free for others.
  Task<absl::Status> Work(std::vector<state::Job> jobs, std::vector<NodeId> kept);
  // When there is something to decide if nothing changes; InfiniteDuration: never.
  absl::Duration Next() const { return recruits_.Next(clock_.Monotonic()); }

 private:
  // Of a running job.
  struct Running {
    config::JobSpec spec;  // `request` points at it
    schedule::JobRequest request;
    std::map<NodeId, int> failures;
    std::set<NodeId> ready;
    std::map<NodeId, bool> gone;  // members that their owners' pauses stopped; true: and were seen paused since
    std::optional<uint64_t> changes_after;  // rounds that were done when somebody wished to come or leave
    size_t places = 0;               // for which nobody is called
    std::optional<size_t> unfilled;  // how many there were when the offers of weighed_ were asked
  };
  absl::StatusOr<Running*> Find(const state::Job& job);
  // Takes in and leaves out, dismisses, and counts the places that are left.
  absl::Status ReadPaused();
  Task<absl::Status> Settle(state::Job job, Running& running);
  // The members of the next epoch, as far as they wish.
  std::vector<NodeId> Wished(const state::Job& job, const Running& running) const;
  Task<absl::Status> Regroup(state::Job job, std::vector<NodeId> members);
  Task<absl::Status> Call(state::Job job, Running& running);
  Task<absl::Status> Record(JobId job, NodeId node, wire::RecruitAction action, std::string reason);

  const Clock& clock_;
  state::State& state_;
  membership::Membership& membership_;
  const std::function<bool(const NodeId&)> present_;
  const std::function<bool(JobId, const NodeId&)> lost_;
  schedule::Recruits recruits_;
  std::map<JobId, Running> running_;
  std::set<NodeId> paused_;  // by their owners
  uint64_t members_since_ = 0;  // of the state, when paused_ was read
  std::optional<std::vector<schedule::NodeOffer>> weighed_;  // what the jobs with unfilled places were weighed with
  absl::Duration weigh_again_ = absl::InfiniteDuration();    // whatever is offered
};

}  // namespace gdf::jobs

#endif  // GDF_GDFD_JOBS_RECRUITER_H_
