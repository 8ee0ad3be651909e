// Fetches a job's files, chunk by chunk, from any node that has them, and serves this node's chunks
// to the job's nodes. Stream swarm.chunk: a ChunkCall there, the chunk's bytes back in pieces.
//
//   GDF_CO_ASSIGN_OR_RETURN(store::Manifest manifest,
//                           co_await swarm.Fetch({job, digest, holders, kin}, on_progress));
#ifndef GDF_CORE_SWARM_SWARM_H_
#define GDF_CORE_SWARM_SWARM_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/compute_pool.h"
#include "core/base/task.h"
#include "core/net/transport.h"
#include "core/store/chunk_store.h"
#include "core/wire/membership_messages.h"

namespace gdf::swarm {

// The owner name under which a job's chunks are pinned: "j17". What is pinned by owners named after it belongs to the job
// too, such as its checkpoints'.
std::string OwnerOf(JobId job);

struct FetchProgress {
  uint64_t bytes_done = 0;
  uint64_t bytes_total = 0;
};

struct FetchRequest {
  JobId job;
  Digest manifest;
  std::vector<NodeId> holders;
  // Jobs of the same submitter: what came here for one of them is taken from the disk.
  std::vector<JobId> kin;
  std::string owner = {};  // by whom it is pinned, one named after the job's; empty: the job's own
};

// On the executor.
class Swarm {
 public:
  // May `peer` have chunks that are pinned for `job`? Asked for every request.
  using Authorise = std::function<bool(JobId job, NodeId peer)>;

  // Serves at once. The references outlive the swarm; `store` is shared with work on the pool.
  Swarm(net::Transport& transport, ComputePool& pool, std::shared_ptr<store::ChunkStore> store,
        Authorise authorise);

  // Makes all chunks of the manifest present and pinned for the job. What came here for the job or
  // its kin is not fetched; what others' jobs brought is, so that naming a manifest gives nobody
  // bytes that no holder of his has. Holders are asked in turn, beginning at a place that differs
  // between nodes; a missing or refused chunk is asked of the next, who sends nothing for some
  // seconds comes last from then on, and who sends wrong bytes is not asked again. kUnavailable,
  // naming what is missing and why, when every holder has failed repeatedly for kPatience;
  // kResourceExhausted when the disk is full; kInvalidArgument when the manifest is none.
  Task<absl::StatusOr<store::Manifest>> Fetch(
      FetchRequest request, std::function<void(const FetchProgress&)> on_progress);

  // One chunk that belongs to the job, verified and not stored, from the first of `holders` that gives it. kUnavailable
  // with the last one's reason when none does.
  Task<absl::StatusOr<Buffer>> FetchChunk(JobId job, store::ChunkId id, std::vector<NodeId> holders);

  static constexpr absl::Duration kPatience = absl::Seconds(60);

 private:
  struct Job;
  Task<void> Serve(NodeId peer, std::unique_ptr<net::Stream> stream);
  Task<absl::Status> Answer(NodeId peer, net::Stream& stream);
  // The chunk as `holder` has it, not verified. Its refusal; kDeadlineExceeded when it sends
  // nothing for `silence`, or takes too long in all; kDataLoss when it is larger than any chunk.
  Task<absl::StatusOr<Buffer>> Ask(NodeId holder, wire::ChunkCall call, absl::Duration silence);
  // Whom to ask for the chunk, in this order.
  std::vector<NodeId> InTurn(const Job& job, const store::ChunkId& id) const;
  // Verified and stored, or why not; errors of this node's own disk are also in job->local.
  Task<absl::Status> FetchFrom(std::shared_ptr<Job> job, NodeId holder, store::ChunkId id);
  Task<absl::Status> FetchOne(std::shared_ptr<Job> job, store::ChunkId id);
  Task<absl::Status> FetchSome(std::shared_ptr<Job> job);
  Task<absl::StatusOr<Buffer>> Load(store::ChunkId id);
  // Makes what was here and what was received so far the job's, beyond a restart.
  Task<absl::Status> Pin(std::shared_ptr<Job> job);

  net::Transport& transport_;
  ComputePool& pool_;
  const std::shared_ptr<store::ChunkStore> store_;
  const Authorise authorise_;
  net::Registration registration_;
};

}  // namespace gdf::swarm

#endif  // GDF_CORE_SWARM_SWARM_H_
