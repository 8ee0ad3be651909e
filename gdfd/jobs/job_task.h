// One job on this node, from its assignment to its end: fetches what it needs, starts the worker,
// takes part in its rounds, and starts again after a crash. A node that is called to a running job
// does the same and then waits for the epoch that makes it a member.
#ifndef GDF_GDFD_JOBS_JOB_TASK_H_
#define GDF_GDFD_JOBS_JOB_TASK_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/compute_pool.h"
#include "core/base/file_system.h"
#include "core/base/task.h"
#include "core/net/transport.h"
#include "core/rounds/job_member.h"
#include "core/state/state.h"
#include "core/store/chunk_store.h"
#include "core/swarm/swarm.h"
#include "core/train/device_list.h"
#include "core/train/worker_session.h"
#include "core/trust/node_key.h"
#include "gdfd/jobs/artifacts.h"
#include "gdfd/jobs/checkpoint_writer.h"
#include "gdfd/jobs/input_budget.h"
#include "gdfd/jobs/task_slots.h"

namespace gdf::jobs {

struct WorkerRequest {
  std::string what;                     // it is for: "j17"
  std::vector<train::GpuDevice> gpus = {};  // that it computes on; none: the CPU
};
// Starts a worker process and waits until it is confined, and has its GPU.
using WorkerFactory =
    std::function<Task<absl::StatusOr<std::unique_ptr<train::WorkerSession>>>(WorkerRequest)>;

class Checkpoints;

// What jobs on this node use; everything outlives them.
struct JobWorld {
  Executor& executor;
  ComputePool& pool;
  FileSystem& files;
  net::Transport& transport;
  state::State& state;
  swarm::Swarm& swarm;
  std::shared_ptr<store::ChunkStore> chunks;
  const trust::NodeKey& key;
  WorkerFactory start_worker;
  std::string folder;          // of all jobs on this node
  std::string pause_file;      // see OwnerPause
  int64_t worker_threads = 0;  // of each worker, at most; 0: all of the machine's
  // The GPUs of this node that workers can use, once they are known. Null: there are none.
  std::function<Task<std::vector<train::GpuDevice>>()> gpus = {};
  InputBudget input_budget = InputBudget();
  TaskSlots job_slots = TaskSlots();
  TaskSlots sample_slots = TaskSlots();  // of their own: the owner looks at a job also while it trains
  Checkpoints* checkpoints = nullptr;  // JobHost's
};

// Folder of one job: inputs/, state/, checkpoints/.
std::string FolderOf(const JobWorld& world, JobId job);
// The checkpoints that are kept there.
std::shared_ptr<checkpoint::VersionStore> VersionsOf(const JobWorld& world, JobId job);

// On the executor; not to be destroyed from its own task.
class JobTask {
 public:
  // Begins at once. `coordinator` is this job's; `on_end` is called once it has ended by itself.
  JobTask(JobWorld& world, state::Job job, std::unique_ptr<rounds::Coordinator> coordinator,
          std::function<void()> on_end);
  ~JobTask();

  // The job's record has changed.
  void Update(const state::Job& job);
  bool ended() const { return ended_; }
  Epoch epoch() const { return job_.epoch; }  // that it has heard of last
  // Resumes when it has ended here, or after `timeout`.
  Task<bool> WaitForEnd(absl::Duration timeout);
  // Resumes when a round is done, the record has changed, it has ended here, somebody calls Wake, or after `timeout`.
  Task<void> WaitForChange(absl::Duration timeout);
  void Wake();

  // Ends it here whatever it does; resumes when nothing of it writes to the job's folder any more.
  Task<void> Stop();

  const state::Job& job() const { return job_; }
  absl::Duration round_deadline() const { return spec_.rounds.round_deadline; }
  rounds::JobProgress progress() const;
  // Of the newest committed round; null before the first.
  std::shared_ptr<const Artifacts> artifacts() const;

 private:
  Task<void> Run();
  Task<absl::Status> RunOnce();
  Task<TaskSlots::Slot> TakeSlot();
  void BeginCheckpoints();
  void LookAfterCheckpoints();
  Task<void> TakeCheckpoints();
  Task<absl::Status> GoBack();
  Task<absl::Status> TakeBack(state::Job job);
  // Sends the job back by itself: see rounds::RoundEnv.
  Task<absl::Status> RollBack(Epoch epoch, RoundId newest, std::string why);
  static Task<void> PassEnd(rounds::JobMember* member, OneShot<absl::Status> end);
  // As the job wishes, within the owner's limit.
  Task<int64_t> NumThreads();
  Task<void> Release();
  void SetEnded();
  Task<absl::Status> FetchInputs(std::vector<train::InputFile>* inputs);
  Task<absl::Status> AssembleFiles(const std::string& input, store::Manifest manifest,
                                   std::vector<train::InputFile>* inputs);
  Task<absl::StatusOr<train::LoadResult>> Load(train::LoadRequest load);
  Task<absl::StatusOr<train::LoadResult>> LoadOn(std::vector<train::GpuDevice> gpus, train::LoadRequest load);
  Task<absl::StatusOr<std::vector<train::GpuDevice>>> FindGpus();
  Task<void> GiveUp(absl::Status why);
  Task<void> ReportEvent(wire::Severity severity, std::string text);
  // While this node is called to the job: says to the coordinators that it is ready.
  Task<void> AskToJoin();
  bool IsLead() const;
  bool IsRecruit() const { return job_.IsRecruit(world_.transport.self()); }

  JobWorld& world_;
  state::Job job_;
  std::string activity_;
  std::unique_ptr<rounds::Coordinator> coordinator_;
  const std::function<void()> on_end_;
  config::JobSpec spec_;
  std::optional<train::ExportPlan> plan_;
  bool told_threads_ = false;  // that there are fewer than the job wishes
  bool gpu_failed_ = false;  // here, for this job: it computes on the CPU
  std::unique_ptr<train::WorkerSession> worker_;
  std::shared_ptr<checkpoint::CheckpointStore> store_;
  std::unique_ptr<CheckpointWriter> checkpoints_;  // from the first start of the rounds on
  bool look_ = false;    // whether others' copies are to be taken here
  bool taking_ = false;
  std::unique_ptr<rounds::JobMember> member_;  // before what it refers to
  std::shared_ptr<const Artifacts> last_;      // of the member that is no more
  std::optional<OneShot<absl::Status>> rounds_end_;  // while they run
  bool going_back_ = false;  // the job was rolled back: what this node holds is not what it goes on from
  bool ended_ = false;
  std::vector<OneShot<bool>> end_waiters_;
  std::vector<OneShot<bool>> change_waiters_;
  TaskScope tasks_;
};

}  // namespace gdf::jobs

#endif  // GDF_GDFD_JOBS_JOB_TASK_H_
