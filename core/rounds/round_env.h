// Everything a job's rounds touch on one node, passed in as one value.
#ifndef GDF_CORE_ROUNDS_ROUND_ENV_H_
#define GDF_CORE_ROUNDS_ROUND_ENV_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/compute_pool.h"
#include "core/base/executor.h"
#include "core/base/task.h"
#include "core/checkpoint/checkpoint_store.h"
#include "core/config/job_spec.h"
#include "core/net/transport.h"
#include "core/train/worker_session.h"
#include "core/trust/node_key.h"
#include "core/wire/membership_messages.h"
#include "core/wire/round_messages.h"
#include "core/wire/state_commands.h"

namespace gdf::rounds {

// "Open an epoch after `current` without `lost`" (nobody lost: with whoever is there). From a node that is called to the
// job: "I am ready to join".
struct EpochRequest {
  JobId job;
  Epoch current;
  std::vector<NodeId> lost;
  std::string reason;
  wire::Leaving leaving = wire::Leaving::kFailed;  // where this node names itself as lost, or for good, as lead, others
};

// The network's coordinators as a job's members see them. Calls may be repeated; kUnavailable: try again later.
class Coordinator {
 public:
  virtual ~Coordinator() = default;
  // OK: heard. The new epoch arrives by JobMember::SetEpoch.
  virtual Task<absl::Status> RequestEpoch(EpochRequest request) = 0;
  virtual Task<absl::Status> ReportJob(wire::ReportJob report) = 0;
  virtual Task<absl::Status> FinishJob(wire::FinishJob finish) = 0;
  virtual Task<absl::Status> RollBackJob(wire::RollBackJob back) = 0;
  virtual Task<absl::Status> ReportEvent(wire::JobEvent event) = 0;
  // Who the coordinators opened an epoch with, from this node's replica of their record; kNotFound: it has none.
  virtual absl::StatusOr<std::vector<NodeId>> MembersOf(JobId job, Epoch epoch) = 0;
  // How many rounds of the job their record has, from this node's replica of it.
  virtual uint64_t RecordedRounds(JobId job) = 0;
  // Whether `node` is in the network, by the same replica. One that is put out does not come back.
  virtual bool IsMember(NodeId node) = 0;
  // Of the newest `count` that it has, those with a loss: the mean over the members, in order.
  virtual std::vector<std::pair<RoundId, double>> RecordedLosses(JobId job, size_t count) = 0;
  // The node's name in that replica; empty when it is not there.
  virtual std::string NameOf(NodeId node) = 0;
  // Whether they say that `node` is not there. False also when they are not heard themselves.
  virtual bool SeesOffline(NodeId node) = 0;
};

// How long a job waits for what. Every wait has one of these or the job's round_deadline.
struct RoundTimings {
  absl::Duration call = absl::Seconds(20);       // a control request and its answer
  absl::Duration persist = absl::Minutes(5);     // one that writes a state to disk, or applies it
  absl::Duration reconnect = absl::Seconds(10);  // a lost connection may come back for this long
  absl::Duration retry = absl::Milliseconds(500);
  absl::Duration enter = absl::Seconds(60);      // for every member to answer when an epoch begins
  absl::Duration majority = absl::Minutes(10);   // for members that load, for those of earlier epochs, and for a round
  absl::Duration epoch = absl::Seconds(30);      // for the coordinators to open an epoch that was asked for
  absl::Duration lead_silence = absl::Minutes(2);  // a lead that is connected and says nothing, beside a round's time
  // One that the coordinators do not see either: a broken connection is dialled again in less.
  absl::Duration lead_down = absl::Seconds(2);
};

// References must outlive the JobMember.
struct RoundEnv {
  JobId job;
  Digest submission;  // state::SubmissionDigest of it, which signatures name
  const config::JobSpec& spec;
  Executor& executor;
  ComputePool& pool;
  net::Transport& transport;
  train::WorkerSession& worker;      // loaded
  train::LoadResult loaded;
  // num_params as loaded. Shared with work on the pool, which a member that is destroyed leaves behind.
  std::shared_ptr<checkpoint::CheckpointStore> store;
  const trust::NodeKey& key;
  Coordinator& coordinator;
  RoundTimings timings = {};
  // Called after a round's commit, when what this node saves of it is on the disk or cannot be. On the executor.
  std::function<void()> on_settled = {};
  // For the lead of `epoch`: sends the job back to the newest state of at most `newest` rounds that is kept for people. OK: an
  // epoch that goes on from there arrives as any other. Null: there is nowhere to go back to.
  std::function<Task<absl::Status>(Epoch epoch, RoundId newest, std::string why)> roll_back = {};
};

}  // namespace gdf::rounds

#endif  // GDF_CORE_ROUNDS_ROUND_ENV_H_
