// All jobs on this node: starts and ends a JobTask as the network's record says, keeps and deletes
// what jobs leave behind, and opens results for export and sampling.
#ifndef GDF_GDFD_JOBS_JOB_HOST_H_
#define GDF_GDFD_JOBS_JOB_HOST_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/task.h"
#include "gdfd/jobs/artifacts.h"
#include "gdfd/jobs/job_task.h"

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

  // Null when the job is not on this node.
  const JobTask* Find(JobId job) const;
  // The parameters that the job's record names, or later ones with the signatures that commit them:
  // this node's own, else a member's. Never older ones. kNotFound when no round is committed yet; kUnavailable,
  // saying what each node has instead, when no node that has them is online; kDataLoss when those
  // that are give others than were reported, or have them damaged.
  Task<absl::StatusOr<std::shared_ptr<const Artifacts>>> Open(JobId job);
  // kResourceExhausted when this node runs as many tasks as its owner allows.
  Task<absl::StatusOr<Sampler>> OpenSampler(JobId job);

 private:
  Task<void> Run();
  Task<void> Reconcile();
  void Follow(const state::Job& summary);
  Task<void> End(state::Job summary);
  Task<void> ServeArtifacts(NodeId peer, std::unique_ptr<net::Stream> stream);
  Task<absl::Status> Answer(NodeId peer, net::Stream& stream);
  bool IsMine(const state::Job& job) const;
  Task<void> Load(JobId job);
  // Who asks while it is being loaded, or while somebody has it, gets the same.
  Task<absl::StatusOr<std::shared_ptr<const Artifacts>>> FromDisk(state::Job job);
  Task<absl::StatusOr<std::shared_ptr<const Artifacts>>> OpenLocal(state::Job job);
  Task<absl::StatusOr<std::shared_ptr<const Artifacts>>> OpenRemote(state::Job job);

  JobWorld world_;
  const CoordinatorFactory make_coordinator_;
  Channel<bool> wake_;
  state::State::WatcherId state_watcher_;
  std::map<JobId, std::unique_ptr<JobTask>> jobs_;
  std::set<JobId> over_;  // jobs that have ended here, or are ending
  // Results of this node's disk: who waits for one, and those that somebody has.
  std::map<JobId, std::vector<OneShot<absl::StatusOr<std::shared_ptr<const Artifacts>>>>> loading_;
  std::map<JobId, std::weak_ptr<const Artifacts>> loaded_;
  int serving_ = 0;  // results on their way to others
  net::Registration registration_;
  TaskScope tasks_;
};

}  // namespace gdf::jobs

#endif  // GDF_GDFD_JOBS_JOB_HOST_H_
