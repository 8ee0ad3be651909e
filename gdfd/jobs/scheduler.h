// The leading coordinator's decisions about jobs: places those that wait, opens epochs that a job's members
// ask for, refuses what no node can run, ends what has run longer than it may, and puts it into a
// running job's events when a member is not online. Decides with
// core/schedule and records with commands; keeps no state of its own beside what it has read of
// jobs and what members said of each other lately. Method: jobs.request_epoch.
#ifndef GDF_GDFD_JOBS_SCHEDULER_H_
#define GDF_GDFD_JOBS_SCHEDULER_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/task.h"
#include "core/config/job_spec.h"
#include "core/membership/membership.h"
#include "core/net/transport.h"
#include "core/schedule/losses.h"
#include "core/schedule/placement.h"
#include "core/schedule/queue.h"
#include "core/state/state.h"
#include "core/wire/membership_messages.h"
#include "gdfd/jobs/absences.h"
#include "gdfd/jobs/recruiter.h"

namespace gdf::jobs {

// On the executor; on a coordinator only. Does nothing while that does not lead.
class Scheduler {
 public:
  // All outlive the scheduler, which works until it is destroyed.
  Scheduler(net::Transport& transport, state::State& state, membership::Membership& membership);
  ~Scheduler();

  // To be called when the coordinator may have begun to lead.
  void Wake() { wake_.Push(true); }
  // Why a pending job waits; empty when it is not known to.
  std::string WaitingFor(JobId job) const;
  // What the method does, for this node itself: opens the epoch after call.current with the members
  // that schedule::Losses lets stay, and those that are ready to join; the lead stays, or else the
  // first of them leads. OK also when a later epoch is open already; kUnavailable when the members
  // would be the same, or fewer than the job's minimum. A node that is called to the job says by it
  // that it is ready (Recruiter). kUnimplemented when this coordinator does not lead: another one
  // does this.
  Task<absl::Status> RequestEpoch(NodeId from, wire::EpochCall call);

 private:
  // A job that waits, read once.
  struct Pending {
    absl::Status readable;          // why the spec could not be parsed
    config::JobSpec spec;           // `request` points at it
    schedule::JobRequest request;
    Epoch epoch;                    // of the job
    NodeId submitter;
    absl::Time submitted;
    std::string waiting;            // why
    bool refused = false;           // the state did not take the decision
  };
  Task<void> Run();
  Task<absl::Status> Work();
  Task<absl::Status> PlacePending(const std::vector<state::Job>& all);
  // Reads those of `jobs`, which wait, that are new. Whether there were any, or some wait no more.
  absl::StatusOr<bool> ReadPending(const std::vector<state::Job>& jobs);
  schedule::QueuePlan PlanFor(const std::vector<state::Job>& all, const std::vector<schedule::NodeOffer>& offers);
  // Records the plan's decisions, as long as the nodes are as it found them.
  Task<absl::Status> Carry(schedule::QueuePlan plan);
  // Ends those of `jobs` that have run for their limits.max_wall_time.
  Task<absl::Status> EndOverdue(const std::vector<state::Job>& jobs);
  Task<absl::Status> EndOverdue(JobId id);
  Task<absl::Status> TellAbsences(const std::vector<state::Job>& jobs);
  absl::Time Now() const;             // as commands are stamped
  absl::Duration UntilNext() const;   // until a running job is to be ended, or an absence told
  absl::StatusOr<Pending*> Read(JobId id);
  // Members take a while to find a coordinator that has just started: who was not seen since then is
  // not gone for that.
  bool MayStillCome(const NodeId& node) const;
  // Of the job's members, after `from` called `lost` lost.
  std::vector<NodeId> Staying(const state::Job& job, const NodeId& from,
                              const std::vector<NodeId>& lost);
  Task<absl::StatusOr<Buffer>> ServeRequestEpoch(NodeId peer, Buffer request);

  net::Transport& transport_;
  state::State& state_;
  membership::Membership& membership_;
  Channel<bool> wake_;  // true: a peer came or went
  std::map<JobId, Pending> pending_;
  Absences absences_;
  Recruiter recruiter_;
  const absl::Duration began_;
  std::set<NodeId> seen_;  // since then
  std::map<JobId, absl::Time> overdue_at_;  // of the running jobs
  std::map<JobId, std::pair<Epoch, schedule::Losses>> losses_;  // said in that epoch
  std::optional<std::vector<schedule::NodeOffer>> weighed_;  // what all of them were weighed with
  absl::Time plan_again_ = absl::InfiniteFuture();  // when they are weighed anew though nothing has changed
  std::vector<NodeId> kept_;  // free nodes that are for one of those that wait
  state::State::WatcherId state_watcher_;
  std::vector<net::Registration> registrations_;
  TaskScope tasks_;
};

}  // namespace gdf::jobs

#endif  // GDF_GDFD_JOBS_SCHEDULER_H_
