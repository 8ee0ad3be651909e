// One job on one node: answers the lead, keeps the outer state, and becomes the lead when an epoch says so.
//
//   JobMember member(env);                       // after worker.Load
//   GDF_CO_RETURN_IF_ERROR(co_await member.Start());
//   member.SetEpoch(record);                     // now and whenever the coordinators open another
//   absl::Status end = co_await member.WaitForEnd();
#ifndef GDF_CORE_ROUNDS_JOB_MEMBER_H_
#define GDF_CORE_ROUNDS_JOB_MEMBER_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "core/base/task.h"
#include "core/checkpoint/outer_state.h"
#include "core/rounds/round_env.h"

namespace gdf::rounds {

// What a node is doing for a job, for people.
struct JobProgress {
  Epoch epoch;             // entered; 0 before the first
  bool lead = false;
  RoundId round;           // committed: θ_round is held
  std::string activity;    // "training", "exchange", "waiting for the lead", ...
  int64_t step = 0;        // inner steps done, as the worker last said
  double loss = 0;         // of that step
};

// Executor only; must not be destroyed from one of its own tasks.
class JobMember {
 public:
  explicit JobMember(RoundEnv env);
  ~JobMember();

  // Restores what the store holds, or takes θ_0 from the worker, and serves the job's methods from then on.
  // Damage found on disk and inner state that is lost become events. Fails when the worker or the disk does.
  Task<absl::Status> Start();

  // The coordinators opened `record`. Older ones and repetitions are ignored. A record without this node ends the
  // job here with kAborted.
  void SetEpoch(wire::EpochRecord record);

  // Resumes once the job has ended on this node: OK when all rounds are committed, kAborted when this node is out,
  // else why the job or this node failed. One waiter.
  Task<absl::Status> WaitForEnd();

  // θ and momentum of the last committed round: for exports, samples and status. Never null after Start.
  checkpoint::OuterStatePtr state() const;
  // By which it was committed; none for θ_0.
  const std::optional<wire::Commit>& commit() const;
  JobProgress progress() const;

  // "gdf.round/j3": the method that the lead calls.
  static std::string Method(JobId job);
  // "gdf.state/j3": the method by which members fetch states.
  static std::string StateMethod(JobId job);

  class Impl;  // member.h

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace gdf::rounds

#endif  // GDF_CORE_ROUNDS_JOB_MEMBER_H_
