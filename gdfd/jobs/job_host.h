// All jobs on this node: starts and ends a JobTask as the network's record says, keeps and deletes
// what jobs leave behind, and opens results for export and sampling.
#ifndef GDF_GDFD_JOBS_JOB_HOST_H_
#define GDF_GDFD_JOBS_JOB_HOST_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/task.h"
#include "core/membership/membership.h"
#include "gdfd/jobs/artifacts.h"
#include "gdfd/jobs/checkpoints.h"
#include "gdfd/jobs/job_task.h"
#include "gdfd/jobs/owner_pause.h"

namespace gdf::jobs {

// A worker with a job's newest parameters, for sampling.
struct Sampler {
  TaskSlots::Slot slot;
  std::unique_ptr<train::WorkerSession> worker;
  RoundId round;
};

// On the executor.
class JobHost {
 public:
  using CoordinatorFactory = std::function<std::unique_ptr<rounds::Coordinator>()>;

  JobHost(JobWorld world, CoordinatorFactory make_coordinator);
  ~JobHost();

  // Begins to follow the state.
  void Start();

  // Pins the chunks of `job`'s inputs that were uploaded here, so that the others can fetch them.
  // Does nothing for what was submitted elsewhere: it has nothing here but what is fetched for it.
  absl::Status Hold(const state::Job& job);

  // This node takes no work until `until` or Resume, nor after a restart. What runs goes on until its round has ended and
  // the coordinators leave this node out, or (`now`) is stopped at once, with the steps of its round.
  absl::Status Pause(absl::Time until, bool now);
  absl::Status Resume() { return pause_.End(); }
  // While it is paused: until when.
  const std::optional<absl::Time>& paused_until() const { return pause_.until(); }
  // Called after each change of it.
  void OnPause(std::function<void()> told) { on_pause_ = std::move(told); }
  // Jobs that have a task here: it fetches, loads, trains or waits.
  int running() const;

  // Null when the job is not on this node.
  const JobTask* Find(JobId job) const;
  // The parameters that the job's record names, or later ones with the signatures that commit them:
  // this node's own, else a member's. Never older ones. kNotFound when no round is committed yet; kUnavailable,
  // saying what each node has instead, when no node that has them is online; kDataLoss when those
  // that are give others than were reported, or have them damaged.
  Task<absl::StatusOr<std::shared_ptr<const Artifacts>>> Open(JobId job);
  // kResourceExhausted when this node runs as many tasks as its owner allows.
  Task<absl::StatusOr<Sampler>> OpenSampler(JobId job);
  Checkpoints& checkpoints() { return checkpoints_; }

 private:
  Task<void> Run();
  Task<void> Reconcile();
  void Follow(const state::Job& summary);
  Task<void> End(state::Job summary);
  // Leaves the job when its round has ended and the coordinators have had time to open an epoch without this node.
  Task<void> HandOver(JobId id);
  Task<void> Leave(JobId id);
  Task<void> ServeArtifacts(NodeId peer, std::unique_ptr<net::Stream> stream);
  Task<absl::Status> Answer(NodeId peer, net::Stream& stream);
  bool IsMine(const state::Job& job) const;
  Task<void> Load(JobId job);
  // Who asks while it is being loaded, or while somebody has it, gets the same.
  Task<absl::StatusOr<std::shared_ptr<const Artifacts>>> FromDisk(state::Job job);
  Task<absl::StatusOr<std::shared_ptr<const Artifacts>>> OpenLocal(state::Job job);
  Task<absl::StatusOr<std::shared_ptr<const Artifacts>>> OpenRemote(state::Job job);

  JobWorld world_;
  Checkpoints checkpoints_;
  const CoordinatorFactory make_coordinator_;
  Channel<bool> wake_;
  state::State::WatcherId state_watcher_;
  OwnerPause pause_;
  std::function<void()> on_pause_;
  std::map<JobId, std::shared_ptr<JobTask>> jobs_;  // shared with who waits for its end
  std::set<JobId> over_;  // jobs that have ended here, or are ending
  // Results of this node's disk: who waits for one, and those that somebody has.
  std::map<JobId, std::vector<OneShot<absl::StatusOr<std::shared_ptr<const Artifacts>>>>> loading_;
  std::map<JobId, std::weak_ptr<const Artifacts>> loaded_;
  int serving_ = 0;  // results on their way to others
  net::Registration registration_;
  TaskScope tasks_;
};

// Has the network told, now and after each change, whether `host` is paused. `membership` outlives `host`.
void TellPauses(JobHost& host, membership::Membership& membership);

}  // namespace gdf::jobs

#endif  // GDF_GDFD_JOBS_JOB_HOST_H_
