// Signing receipts and checking the majority that commits one.
#ifndef GDF_CORE_ROUNDS_RECEIPTS_H_
#define GDF_CORE_ROUNDS_RECEIPTS_H_

#include "absl/status/status.h"
#include "core/trust/node_key.h"
#include "core/wire/round_messages.h"

namespace gdf::rounds {

wire::NodeSignature SignReceipt(const trust::NodeKey& key, const wire::Receipt& receipt);

// kPermissionDenied unless `signature` is `signer`'s for the receipt.
absl::Status VerifySignature(const wire::Receipt& receipt, const wire::NodeSignature& signature,
                             const NodeId& signer);

// kPermissionDenied unless a majority of the receipt's voters signed it, each once; kInvalidArgument when it is of
// another job.
absl::Status VerifyCommit(const wire::Commit& commit, JobId job);

}  // namespace gdf::rounds

#endif  // GDF_CORE_ROUNDS_RECEIPTS_H_
