// Signing receipts and checking the majority that commits one.
#ifndef GDF_CORE_ROUNDS_RECEIPTS_H_
#define GDF_CORE_ROUNDS_RECEIPTS_H_

#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/trust/node_key.h"
#include "core/wire/round_messages.h"

namespace gdf::rounds {

// For a receipt of the job that `submission`, of state::SubmissionDigest, made: a job of the same number elsewhere has
// another one, which no receipt says of itself.
wire::NodeSignature SignReceipt(const trust::NodeKey& key, const Digest& submission, const wire::Receipt& receipt);

// kPermissionDenied unless `signature` is `signer`'s for the receipt of this submission.
absl::Status VerifySignature(const wire::Receipt& receipt, const Digest& submission,
                             const wire::NodeSignature& signature, const NodeId& signer);

// kPermissionDenied unless the receipt's voters are `members`, those that the coordinators opened its epoch with, and a
// majority of them signed it, each once; kInvalidArgument when it is of another job.
absl::Status VerifyCommit(const wire::Commit& commit, JobId job, const Digest& submission,
                          const std::vector<NodeId>& members);

// Of two committed states the one of the later epoch wins: what an epoch without a majority of the one before it rolled
// back stays rolled back. No commit: θ_0.
std::pair<Epoch, RoundId> Rank(const std::optional<wire::Commit>& commit);

}  // namespace gdf::rounds

#endif  // GDF_CORE_ROUNDS_RECEIPTS_H_
