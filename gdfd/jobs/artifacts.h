// A job's result: θ of the newest committed round and the side files that make a Hugging Face
// folder of it. Kept in the job's folder from the first loading on, so that export and sampling
// need no running job (docs/formats/checkpoint.md: the side files are one record, `artifacts`);
// fetched from a member by nodes that are none. Method: jobs.artifacts.
#ifndef GDF_GDFD_JOBS_ARTIFACTS_H_
#define GDF_GDFD_JOBS_ARTIFACTS_H_

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/base/compute_pool.h"
#include "core/base/file_system.h"
#include "core/base/task.h"
#include "core/checkpoint/outer_state.h"
#include "core/net/transport.h"
#include "core/train/worker_session.h"
#include "core/wire/artifact_messages.h"

namespace gdf::jobs {

struct Artifacts {
  train::ExportPlan plan;
  checkpoint::OuterStatePtr state;  // its momentum may be empty
  std::optional<wire::Commit> commit = std::nullopt;  // that came with it; none for θ_0
  std::string passed_over = {};     // damaged files of this disk, when it may not be the newest
};

// `folder` is the job's. Both block: call them from the compute pool. `num_params`: elements of θ,
// which may be fewer than the plan's layout has. kInvalidArgument: the side files are larger than
// what can be sent.
absl::Status SaveExportPlan(FileSystem& files, const std::string& folder,
                            const train::ExportPlan& plan, uint64_t num_params);
// What SaveExportPlan wrote there, as a checkpoint keeps it.
absl::StatusOr<Buffer> ReadSideFiles(FileSystem& files, const std::string& folder);
// The plan in it. kInvalidArgument when it is cut short or has no layout.
absl::StatusOr<train::ExportPlan> ParseSideFiles(const Buffer& side_files);
// The newest that is whole. kNotFound when nothing is committed there; kDataLoss, naming the file,
// when all of it or the side files are damaged.
absl::StatusOr<Artifacts> LoadArtifacts(FileSystem& files, const std::string& folder);
// Removes what interrupted saves left in the folders of all jobs in `jobs_folder`. Before any
// job writes there; it blocks like the others.
absl::Status RemoveUnfinishedSaves(FileSystem& files, const std::string& jobs_folder);
// Of a job that has ended: what LoadArtifacts reads stays, the rest of its checkpoints goes.
absl::Status KeepArtifactsOnly(FileSystem& files, const std::string& folder);

// Sends the result to the peer at the other end of `stream`, which has asked for it.
// kDeadlineExceeded, and the stream is cancelled, when the peer takes no piece of it for a minute.
Task<absl::Status> SendArtifacts(Executor& executor, net::Stream& stream,
                                 std::shared_ptr<const Artifacts> artifacts);
// Asks `peer` for the result that `call` is about. kDataLoss when θ does not have the digest it claims;
// kInvalidArgument when a side file is none that exports have.
Task<absl::StatusOr<std::shared_ptr<const Artifacts>>> FetchArtifacts(net::Transport& transport,
                                                                      ComputePool& pool, NodeId peer,
                                                                      wire::ArtifactCall call);

}  // namespace gdf::jobs

#endif  // GDF_GDFD_JOBS_ARTIFACTS_H_
