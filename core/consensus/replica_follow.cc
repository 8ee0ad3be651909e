// Following: what the leader has decided is applied, what it wants to decide is put on the disk.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/consensus/replica.h"

namespace gdf::consensus {

absl::StatusOr<wire::LeadAnswer> Replica::OnLeadCall(const NodeId& peer, const wire::LeadCall& call) {
  wire::LeadAnswer answer;
  if (call.since < since_) {
    answer.news = NewsFor(call.since, call.applied);
  } else if (!IsPeer(peer)) {
    return absl::PermissionDeniedError(absl::StrCat("node ", peer.Short(), " is no coordinator beside this one"));
  } else if (call.since > since_) {
    // Others have been chosen, and this node has not heard of it.
    GDF_RETURN_IF_ERROR(Learn(call.decided));
    Regroup();
  } else if (call.term >= ballot_.term) {
    if (call.term > ballot_.term) GDF_RETURN_IF_ERROR(Adopt(call.term));
    if (role_ != Role::kFollower || leader_ != peer) Follow(peer);
    heard_ = now();
    stand_at_ = heard_ + kPatience * (1 + env_.rng.Unit());
    GDF_RETURN_IF_ERROR(ApplyTail(call.decided));
    GDF_RETURN_IF_ERROR(Learn(call.decided));
    if (env_.state.coordinators_since() != since_) {
      Regroup();
    } else {
      if (call.whole && !ballot_.abstains) GDF_RETURN_IF_ERROR(Accept(call));
      answer.holds = ballot_.accepted == call.term ? last() : env_.state.last_applied();
      if (ballot_.abstains) answer.holds = 0;
    }
  }
  answer.since = since_;
  answer.term = ballot_.term;
  answer.applied = env_.state.last_applied();
  return answer;
}

// What this node has accepted of this leader, up to where it is decided now.
absl::Status Replica::ApplyTail(const wire::LogPart& decided) {
  const uint64_t applied = env_.state.last_applied();
  if (decided.after <= applied || decided.after > last()) return absl::OkStatus();
  GDF_ASSIGN_OR_RETURN(Digest chain, env_.state.LogDigest(applied));
  for (uint64_t i = 0; i < decided.after - applied; ++i) chain = state::NextLogDigest(chain, ballot_.tail[i]);
  if (chain != decided.chain) return absl::OkStatus();  // of another leader: the entries come
  while (env_.state.last_applied() < decided.after) {
    const std::string entry = ballot_.tail.front();
    GDF_RETURN_IF_ERROR(ApplyNext(entry));
  }
  return absl::OkStatus();
}

absl::Status Replica::Accept(const wire::LeadCall& call) {
  const uint64_t applied = env_.state.last_applied(), end = call.decided.end() + call.tail.size();
  if (applied < call.decided.end()) return absl::OkStatus();
  // A leader's log grows only: this call was overtaken.
  if (ballot_.accepted == call.term && end < last()) return absl::OkStatus();
  const size_t known = std::min<uint64_t>(applied - call.decided.end(), call.tail.size());
  std::vector<std::string> tail(call.tail.begin() + static_cast<ptrdiff_t>(known), call.tail.end());
  if (tail == ballot_.tail && (tail.empty() || ballot_.accepted == call.term)) return absl::OkStatus();
  return SaveTail(call.term, std::move(tail));
}

}  // namespace gdf::consensus
