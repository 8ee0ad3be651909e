// The checkpoints of all jobs, as this node has them and as it hears of them from others: lists, checks and repairs them,
// and opens them for an export. Method jobs.checkpoints: an ArtifactCall, answered by the records that the node keeps
// (docs/formats/checkpoint.md), one a message.
#ifndef GDF_GDFD_JOBS_CHECKPOINTS_H_
#define GDF_GDFD_JOBS_CHECKPOINTS_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/task.h"
#include "core/checkpoint/version_store.h"
#include "core/config/job_spec.h"
#include "core/state/state.h"
#include "gdfd/jobs/artifacts.h"
#include "gdfd/jobs/job_task.h"

namespace gdf::jobs {

// One checkpoint of a job, by what was committed, and who keeps it.
struct KeptCheckpoint {
  struct Copy {
    NodeId node;
    checkpoint::Version version;
  };
  std::vector<Copy> copies;  // of one state; at least one, in the order of the job's members
  const checkpoint::Version& version() const { return copies.front().version; }
  // Who keeps what all members have alike, not their own state alone.
  std::vector<NodeId> holders() const;
};

struct CheckpointList {
  std::vector<KeptCheckpoint> checkpoints;  // ascending by round
  size_t wanted = 0;                        // how many members are to keep each
  std::vector<NodeId> silent;               // members that did not say what they keep
  std::vector<std::string> passed_over;     // records of this node that are damaged or not this job's
};

// The newest of at least `from` and at most `until` rounds that somebody holds; of several of one number, what was committed
// last. Null: none.
const checkpoint::Version* NewestOf(const CheckpointList& list, RoundId from, RoundId until);

// What of one checkpoint is on this node, after repairs.
struct CheckedCheckpoint {
  checkpoint::Version version;
  bool model = false;  // whether it keeps that part
  bool outer = false;
  bool inner = false;
  checkpoint::Inspection found;
  struct Repaired {
    store::ChunkId id;
    std::string part;
  };
  std::vector<Repaired> repaired;  // fetched from other members
  std::string why_not;             // why what is missing could not be, the last reason
};

// On the executor.
class Checkpoints {
 public:
  struct Taken {
    std::vector<RoundId> rounds;
    absl::Status failed;  // the first reason why one could not be had from those who have it
  };

  // `world` outlives it.
  explicit Checkpoints(JobWorld& world);
  ~Checkpoints() { registration_.Reset(); }

  // Drops what crashes have left of checkpoints of any job. Before any is written.
  Task<void> Tidy();
  // Those of this node and of the job's members that answer soon. kNotFound: no such job.
  Task<absl::StatusOr<CheckpointList>> List(JobId job);
  // Reads all of this node's copy; what is damaged or missing is fetched from other members and put back. kNotFound when
  // this node has no copy; kDataLoss when the record is damaged; kPermissionDenied when its commit is not this job's.
  Task<absl::StatusOr<CheckedCheckpoint>> Verify(JobId job, RoundId round);
  // Deletes this node's copy, for good: it is not called to keep it again. kNotFound when there is none.
  Task<absl::Status> Remove(JobId job, RoundId round);
  // Takes from other members the copies that this node is called to keep (HoldersOf) and does not, because it was not
  // there, others are no more, or they were damaged. `reached`: the round that the job has come to here. Asks others only
  // when something lacks.
  Task<Taken> TakeCalled(state::Job job, config::JobSpec spec, RoundId reached);
  // This node's copy of what the job was rolled back to, whole but perhaps for the inner state; fetched from the job's members
  // where it has none. kUnavailable when it is not to be had now.
  Task<absl::StatusOr<checkpoint::Version>> Obtain(state::Job job, state::Rollback target);
  // What an export needs of this node's copy, repaired where that is needed and can be.
  Task<absl::StatusOr<std::shared_ptr<const Artifacts>>> OpenLocal(state::Job job, RoundId round);
  // This node's copy, else a member's.
  Task<absl::StatusOr<std::shared_ptr<const Artifacts>>> Open(JobId job, RoundId round);

 private:
  struct Records;
  Task<absl::StatusOr<Records>> Own(JobId job);
  Task<absl::StatusOr<std::vector<checkpoint::Version>>> Ask(NodeId member, JobId job);
  using Answers = std::map<NodeId, absl::StatusOr<std::vector<checkpoint::Version>>>;
  // What the job's other members keep, of what was committed by its members.
  Task<Answers> AskOthers(state::Job job);
  Task<std::vector<KeptCheckpoint>> AtOthers(state::Job job);
  Task<absl::StatusOr<checkpoint::Version>> Load(const state::Job& job, RoundId round);
  Task<std::set<RoundId>> Lacking(JobId job, std::vector<uint64_t> due);
  Task<absl::StatusOr<checkpoint::Version>> Fetch(state::Job job, KeptCheckpoint kept);
  Task<absl::StatusOr<CheckedCheckpoint>> Check(state::Job job, checkpoint::Version version);
  Task<absl::StatusOr<std::shared_ptr<const Artifacts>>> Read(JobId job, checkpoint::Version version);
  Task<void> Serve(NodeId peer, std::unique_ptr<net::Stream> stream);
  Task<absl::Status> Answer(NodeId peer, net::Stream& stream);

  JobWorld& world_;
  net::Registration registration_;
};

}  // namespace gdf::jobs

#endif  // GDF_GDFD_JOBS_CHECKPOINTS_H_
