#include "gdfd/jobs/result_rights.h"

#include "absl/algorithm/container.h"
#include "core/rounds/receipts.h"
#include "core/state/submission.h"

namespace gdf::jobs {

absl::Status CheckMayHaveResult(state::State& state, const state::Job& job, const NodeId& peer) {
  if (peer == job.owner || absl::c_linear_search(job.members, peer) ||
      state.CheckMember(peer, trust::Operation::kSetRole).ok()) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError("only the job's owner, its members and admins may have its parameters");
}

absl::Status CheckCommitted(state::State& state, const state::Job& job, const wire::Commit& commit) {
  const absl::StatusOr<std::vector<NodeId>> members = state.epoch_members(job.id, commit.receipt.tag.epoch);
  if (!members.ok()) return absl::UnavailableError(members.status().message());
  const absl::StatusOr<state::Network> network = state.network();
  if (!network.ok()) return absl::UnavailableError(network.status().message());
  return rounds::VerifyCommit(commit, job.id, state::SubmissionDigest(network->id, job), *members);
}

}  // namespace gdf::jobs
