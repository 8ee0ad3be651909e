#include "core/rounds/receipts.h"

#include <algorithm>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/encoding.h"
#include "core/base/status_macros.h"

namespace gdf::rounds {
namespace {

constexpr char kLabel[] = "gdf receipt 2";

std::string SignedText(const wire::Receipt& receipt, const Digest& submission) {
  const Digest digest = receipt.SigningDigest();
  std::string text(AsString(submission.span()));
  return text.append(AsString(digest.span()));
}

}  // namespace

wire::NodeSignature SignReceipt(const trust::NodeKey& key, const Digest& submission, const wire::Receipt& receipt) {
  wire::NodeSignature out;
  out.public_key = key.public_key();
  out.signature = key.Sign(kLabel, SignedText(receipt, submission));
  return out;
}

absl::Status VerifySignature(const wire::Receipt& receipt, const Digest& submission,
                             const wire::NodeSignature& signature, const NodeId& signer) {
  if (trust::NodeIdOf(signature.public_key) != signer) {
    return absl::PermissionDeniedError(
        absl::StrCat("the signature of ", receipt.tag.ToString(), " is not node ", signer.Short(), "'s"));
  }
  return Annotate(trust::Verify(signature.public_key, kLabel, SignedText(receipt, submission), signature.signature),
                  absl::StrCat("receipt of ", receipt.tag.ToString(), " signed by node ", signer.Short()));
}

absl::Status VerifyCommit(const wire::Commit& commit, JobId job, const Digest& submission,
                          const std::vector<NodeId>& members) {
  const wire::Receipt& receipt = commit.receipt;
  if (receipt.tag.job != job) {
    return absl::InvalidArgumentError(
        absl::StrCat("a commit of ", receipt.tag.ToString(), " came to ", ToString(job)));
  }
  if (receipt.voters != members) {
    return absl::PermissionDeniedError(
        absl::StrCat("the voters of ", receipt.tag.ToString(), " are not the epoch's members"));
  }
  std::set<NodeId> signers;
  for (const wire::NodeSignature& signature : commit.signatures) {
    const NodeId signer = trust::NodeIdOf(signature.public_key);
    if (std::find(receipt.voters.begin(), receipt.voters.end(), signer) == receipt.voters.end()) continue;
    GDF_RETURN_IF_ERROR(VerifySignature(receipt, submission, signature, signer));
    signers.insert(signer);
  }
  const size_t majority = receipt.voters.size() / 2 + 1;
  if (signers.size() < majority) {
    return absl::PermissionDeniedError(absl::StrCat("the commit of ", receipt.tag.ToString(), " has ", signers.size(),
                                                    " signatures of its ", receipt.voters.size(),
                                                    " voters, expected ", majority));
  }
  return absl::OkStatus();
}

std::pair<Epoch, RoundId> Rank(const std::optional<wire::Commit>& commit) {
  if (!commit) return {};
  return {commit->receipt.tag.epoch, commit->receipt.result.round};
}

}  // namespace gdf::rounds
