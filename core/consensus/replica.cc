#include "core/consensus/replica.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"

namespace gdf::consensus {
namespace {

// Of decided entries for who missed the choice of other coordinators. There is more where it asks again.
constexpr size_t kNewsBytes = size_t{256} << 10;

}  // namespace

Replica::Replica(Environment env)
    : env_(env), log_(env.state, env.transport.executor().clock()), tasks_(env.transport.executor()) {
  // Whoever applies the entry that chooses others may be in the midst of something.
  state_watcher_ = env_.state.AddWatcher([this](uint64_t) {
    if (regroup_pending_ || env_.state.coordinators_since() == since_) return;
    regroup_pending_ = true;
    tasks_.Spawn(RegroupSoon());
  });
  Regroup();
  const auto serve = [this]<typename Call, typename Answer>(
                         const char* method, absl::StatusOr<Call> (*decode)(std::string_view),
                         absl::StatusOr<Answer> (Replica::*handle)(const NodeId&, const Call&)) {
    registrations_.push_back(env_.transport.HandleCall(
        method, [this, decode, handle](NodeId peer, Buffer request) -> Task<absl::StatusOr<Buffer>> {
          return Serve(peer, std::move(request), decode, handle);
        }));
  };
  serve("consensus.vote", &wire::DecodeVoteCall, &Replica::OnVoteCall);
  serve("consensus.lead", &wire::DecodeLeadCall, &Replica::OnLeadCall);
}

Replica::~Replica() {
  env_.state.RemoveWatcher(state_watcher_);
  FailProposals();
}

template <typename Call, typename Answer>
Task<absl::StatusOr<Buffer>> Replica::Serve(NodeId peer, Buffer request,
                                            absl::StatusOr<Call> (*decode)(std::string_view),
                                            absl::StatusOr<Answer> (Replica::*handle)(const NodeId&, const Call&)) {
  GDF_CO_ASSIGN_OR_RETURN(const Call call, decode(request.view()));
  GDF_CO_ASSIGN_OR_RETURN(const Answer answer, (this->*handle)(peer, call));
  co_return Buffer(wire::Encode(answer));
}

Task<void> Replica::RegroupSoon() {
  Regroup();
  co_return;
}

// Does nothing while the coordinators are the same.
void Replica::Regroup() {
  regroup_pending_ = false;
  const absl::StatusOr<state::Network> network = env_.state.network();
  if (!network.ok() || network->coordinators_since == since_) return;
  absl::StatusOr<state::Ballot> ballot = env_.state.ballot();
  if (!ballot.ok()) {
    problem_ = ballot.status();
    return;
  }
  FailProposals();
  ballot_ = *std::move(ballot);
  const bool started = since_ == 0;
  const bool led = role_ == Role::kSole || role_ == Role::kLeader;
  since_ = network->coordinators_since;
  for (auto& [id, peer] : peers_) peer->wake.Push(true);
  peers_.clear();
  const NodeId self = env_.transport.self();
  if (!std::binary_search(network->coordinators.begin(), network->coordinators.end(), self)) {
    Become(Role::kPassive, std::nullopt);
  } else if (network->coordinators.size() == 1) {
    Become(Role::kSole, self);
  } else {
    for (const NodeId& id : network->coordinators) {
      if (id != self) peers_.emplace(id, std::make_shared<Peer>(env_.transport.executor()));
    }
    // Nobody has led these; but after a start it is not known.
    heard_ = started ? now() : now() - kPatience;
    Follow(std::nullopt);
    if (led) stand_at_ = now() + kPatience / 10;  // the others will have heard of it by then
    tasks_.Spawn(KeepTime(since_));
  }
}

void Replica::Become(Role role, std::optional<NodeId> leader) {
  ++round_;
  role_ = role;
  leader_ = leader;
  for (auto& [id, peer] : peers_) peer->wake.Push(true);
  if (on_leading_) on_leading_();
}

void Replica::Follow(std::optional<NodeId> leader) {
  FailProposals();
  stand_at_ = now() + kPatience * (1 + env_.rng.Unit());
  Become(Role::kFollower, leader);
}

void Replica::FailProposals() {
  const absl::Status why = absl::UnavailableError("this coordinator does not lead any more; ask again");
  for (const Proposal& proposal : std::exchange(flight_, {})) proposal.done.Set(why);
  for (const Proposal& proposal : std::exchange(queue_, {})) proposal.done.Set(why);
}

Task<void> Replica::KeepTime(uint64_t since) {
  while (since == since_) {
    const bool leads = role_ == Role::kLeader;
    const absl::Duration deadline =
        leads ? kPatience : std::max(absl::Milliseconds(1), stand_at_ - now());
    co_await Sleep(env_.transport.executor(), deadline);
    if (since != since_) co_return;
    if (role_ == Role::kLeader) {
      const absl::Duration latest = now() - kPatience;
      if (lead_began_ < latest && !ConfirmedSince(latest)) {
        Log(LogLevel::kWarning, "lead_lost", {{"why", "most coordinators do not answer"}});
        Follow(std::nullopt);
      }
    } else if (now() >= stand_at_) {
      Stand(/*trial=*/true);
    }
  }
}

std::optional<NodeId> Replica::leader() const { return leader_; }

absl::Duration Replica::Leaderless() const { return leader_ ? absl::ZeroDuration() : now() - heard_; }

absl::StatusOr<wire::LogPart> Replica::Decided(uint64_t after, size_t max_bytes) {
  wire::LogPart part;
  part.after = after;
  GDF_ASSIGN_OR_RETURN(part.chain, env_.state.LogDigest(after));
  if (max_bytes == 0 || after == env_.state.last_applied()) return part;
  GDF_ASSIGN_OR_RETURN(std::vector<state::LogEntry> entries, env_.state.LogEntries(after + 1, max_bytes));
  for (state::LogEntry& entry : entries) {
    if (part.entries.size() == wire::kMaxEntriesPerCall) break;
    part.entries.push_back(std::move(entry.command));
  }
  return part;
}

std::optional<wire::LogPart> Replica::NewsFor(uint64_t since, uint64_t applied) {
  if (since >= since_ || applied >= env_.state.last_applied()) return std::nullopt;
  absl::StatusOr<wire::LogPart> part = Decided(applied, kNewsBytes);
  return part.ok() ? std::optional(*std::move(part)) : std::nullopt;
}

// Applies what of `part` is not applied yet, when it follows on what is.
absl::Status Replica::Learn(const wire::LogPart& part) {
  if (part.after > env_.state.last_applied()) return absl::OkStatus();
  GDF_ASSIGN_OR_RETURN(const Digest chain, env_.state.LogDigest(part.after));
  if (chain != part.chain) {
    problem_ = absl::DataLossError(
        absl::StrCat("the coordinators' logs are not the same up to entry ", part.after,
                     ": one of them was restored from an old copy, or is damaged"));
    return problem_;
  }
  for (size_t i = env_.state.last_applied() - part.after; i < part.entries.size(); ++i) {
    GDF_RETURN_IF_ERROR(ApplyNext(part.entries[i]));
  }
  return absl::OkStatus();
}

absl::Status Replica::SaveVote(uint64_t term, const std::optional<NodeId>& vote) {
  problem_ = env_.state.SaveVote(term, vote);
  if (!problem_.ok()) return problem_;
  ballot_.term = term;
  ballot_.vote = vote;
  return absl::OkStatus();
}

absl::Status Replica::SaveTail(uint64_t term, std::vector<std::string> tail) {
  problem_ = env_.state.SaveTail(term, tail);
  if (!problem_.ok()) return problem_;
  ballot_.accepted = term;
  ballot_.tail = std::move(tail);
  return absl::OkStatus();
}

absl::Status Replica::ApplyNext(const std::string& entry) {
  // What was accepted and came otherwise was never decided, nor what follows on it.
  const bool expected = !ballot_.tail.empty() && ballot_.tail.front() == entry;
  if (!expected && !ballot_.tail.empty()) {
    GDF_RETURN_IF_ERROR(SaveTail(ballot_.accepted, {}));
  }
  problem_ = env_.state.Apply(env_.state.last_applied() + 1, entry).status();
  GDF_RETURN_IF_ERROR(problem_);
  if (expected) ballot_.tail.erase(ballot_.tail.begin());
  return absl::OkStatus();
}

}  // namespace gdf::consensus
