// Choosing a leader: first a trial, which changes nothing, so that a coordinator that was cut off disturbs nobody when it
// comes back; then the vote.
#include <tuple>

#include "core/base/log.h"
#include "core/base/status_macros.h"
#include "core/consensus/replica.h"

namespace gdf::consensus {
namespace {

constexpr absl::Duration kVoteTimeout = absl::Seconds(1);
// Of two that stand within a few round trips the one with the lower id goes on. Not for longer: it may not be heard.
constexpr absl::Duration kYield = absl::Milliseconds(300);

}  // namespace

void Replica::Stand(bool trial) {
  stood_at_ = now();
  stand_at_ = stood_at_ + kPatience * (0.5 + env_.rng.Unit());
  if (ballot_.abstains) return;
  if (!trial) {
    if (!SaveVote(ballot_.term + 1, env_.transport.self()).ok()) return;
  }
  Become(Role::kCandidate, std::nullopt);
  votes_ = 1;
  const wire::VoteCall call{since_,           ballot_.term + (trial ? 1 : 0),   trial, ballot_.accepted, last(),
                            env_.state.last_applied()};
  for (const auto& [id, peer] : peers_) tasks_.Spawn(AskForVote(id, call, round_));
}

Task<void> Replica::AskForVote(NodeId peer, wire::VoteCall call, uint64_t round) {
  const Buffer request(wire::Encode(call));
  absl::StatusOr<Buffer> reply = co_await env_.transport.Call(peer, "consensus.vote", request, kVoteTimeout);
  if (!reply.ok() || round != round_) co_return;
  absl::StatusOr<wire::VoteAnswer> answer = wire::DecodeVoteAnswer(reply->view());
  if (!answer.ok()) co_return;
  if (answer->news) {
    (void)Learn(*answer->news);  // kept as the problem
    Regroup();
  }
  if (answer->since != since_ || round != round_) co_return;
  if (answer->term > ballot_.term) {
    (void)Adopt(answer->term);  // it stands again later
    co_return;
  }
  if (!answer->granted || ++votes_ < majority()) co_return;
  if (call.trial) {
    Stand(/*trial=*/false);
  } else {
    Lead();
  }
}

absl::StatusOr<wire::VoteAnswer> Replica::OnVoteCall(const NodeId& peer, const wire::VoteCall& call) {
  wire::VoteAnswer answer;
  if (call.since == since_ && IsPeer(peer) && !ballot_.abstains) {
    GDF_ASSIGN_OR_RETURN(answer.granted, Grant(peer, call));
  }
  answer.since = since_;
  answer.term = ballot_.term;
  answer.news = NewsFor(call.since, call.applied);
  return answer;
}

absl::StatusOr<bool> Replica::Grant(const NodeId& peer, const wire::VoteCall& call) {
  // Where a leader has been heard there is none to choose, and it counts on that (leading()). After a start it is not
  // known whether one was.
  if (leading() || now() - heard_ < kPatience) return false;
  const bool complete = std::tie(call.accepted, call.last) >= std::forward_as_tuple(ballot_.accepted, last());
  if (call.trial) {
    const bool yields = role_ != Role::kCandidate || peer < env_.transport.self() || now() - stood_at_ > kYield;
    return complete && yields && call.term > ballot_.term;
  }
  if (call.term < ballot_.term) return false;
  if (!complete) {
    if (call.term > ballot_.term) GDF_RETURN_IF_ERROR(Adopt(call.term));
    return false;
  }
  if (call.term == ballot_.term && ballot_.vote) return *ballot_.vote == peer;
  GDF_RETURN_IF_ERROR(SaveVote(call.term, peer));
  Follow(std::nullopt);
  return true;
}

absl::Status Replica::Adopt(uint64_t term) {
  GDF_RETURN_IF_ERROR(SaveVote(term, std::nullopt));
  Follow(std::nullopt);
  return absl::OkStatus();
}

}  // namespace gdf::consensus
