// Leading: one batch of commands at a time is tried on the state, put on most disks and applied. While it is under way the
// next ones gather.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"
#include "core/consensus/replica.h"

namespace gdf::consensus {
namespace {

constexpr absl::Duration kBeat = absl::Milliseconds(200);
constexpr absl::Duration kBeatTimeout = absl::Seconds(1);
// Less than kPatience, by more than clocks differ in speed.
constexpr absl::Duration kLease = absl::Milliseconds(900);
constexpr size_t kBatchBytes = size_t{256} << 10;
constexpr size_t kBatchCommands = 256;
constexpr size_t kMaxQueue = 4 * kBatchCommands;
// A command must fit into a message with what describes it.
constexpr size_t kMaxEntryBytes = net::kMaxMessageBytes - (size_t{4} << 10);
// Entries of this many bytes go as bulk, so that they do not delay what says that there is a leader.
constexpr size_t kBulkBytes = size_t{32} << 10;
constexpr absl::Duration kFeedTimeout = absl::Seconds(30);  // 1 MiB at less than 1 Mbit/s

}  // namespace

Task<absl::StatusOr<wire::CommandResult>> Replica::Propose(wire::Command command) {
  if (sole()) co_return log_.Propose(std::move(command));
  if (!leading()) {
    co_return absl::UnavailableError(
        leader_ ? absl::StrCat("this coordinator does not lead; ", leader_->Short(), " does")
                : absl::StrCat("no coordinator leads: this one does not hear most of the ", peers_.size() + 1));
  }
  GDF_CO_ASSIGN_OR_RETURN(std::optional<wire::CommandResult> first,
                          env_.state.ResultOf(command.actor, command.request));
  if (first) co_return *std::move(first);
  command.at_unix_ms = env_.state.last_time_unix_ms();  // any, to be checked with
  GDF_CO_RETURN_IF_ERROR(wire::CheckCommand(command));
  if (wire::EncodeCommand(command).size() > kMaxEntryBytes) {
    co_return absl::InvalidArgumentError("the command is too large to be sent to the other coordinators");
  }
  if (queue_.size() >= kMaxQueue) co_return absl::UnavailableError("too much waits to be recorded; ask again");
  OneShot<absl::StatusOr<wire::CommandResult>> done(env_.transport.executor());
  queue_.push_back({std::move(command), {}, done});
  Pump();
  co_return co_await done.Wait();
}

bool Replica::leading() const {
  return sole() || (role_ == Role::kLeader && settled_ && ConfirmedSince(now() - kLease));
}

bool Replica::ConfirmedSince(absl::Duration time) const {
  size_t confirmed = 1;
  for (const auto& [id, peer] : peers_) confirmed += peer->confirmed >= time ? 1 : 0;
  return confirmed >= majority();
}

// What it accepted of an earlier leader may be decided. It becomes its own, all of it in one message and one transaction,
// and then it is decided.
void Replica::Lead() {
  if (!ballot_.tail.empty()) {
    if (!SaveTail(ballot_.term, ballot_.tail).ok()) return;
  }
  settled_ = ballot_.tail.empty();
  lead_began_ = now();
  Become(Role::kLeader, env_.transport.self());
  Log(LogLevel::kInfo, "leads", {{"term", ballot_.term}, {"last", last()}});
  for (auto& [id, peer] : peers_) {
    peer = std::make_shared<Peer>(env_.transport.executor());
    tasks_.Spawn(Beat(id, peer, round_));
    tasks_.Spawn(Feed(id, peer, round_));
  }
}

Task<void> Replica::Beat(NodeId id, std::shared_ptr<Peer> peer, uint64_t round) {
  while (round == round_) {
    const absl::Duration next = now() + kBeat;
    absl::StatusOr<wire::LogPart> decided = Decided(env_.state.last_applied(), 0);
    if (decided.ok()) {
      wire::LeadCall call{since_, ballot_.term, *std::move(decided), {}, false, env_.state.last_applied()};
      (void)co_await Send(id, peer, std::move(call), kBeatTimeout, round);
    }
    co_await Sleep(env_.transport.executor(), next - now());
  }
}

Task<void> Replica::Feed(NodeId id, std::shared_ptr<Peer> peer, uint64_t round) {
  while (round == round_) {
    if (!Behind(*peer)) {
      co_await peer->wake.Pop();
      continue;
    }
    const auto before = std::pair(peer->applied, peer->holds);
    absl::StatusOr<wire::LeadCall> call = NextFor(*peer);
    if (call.ok()) (void)co_await Send(id, peer, *std::move(call), kFeedTimeout, round);
    // It does not answer, or takes nothing.
    if (std::pair(peer->applied, peer->holds) == before) co_await Sleep(env_.transport.executor(), kBeat);
  }
}

Task<absl::Status> Replica::Send(NodeId id, std::shared_ptr<Peer> peer, wire::LeadCall call, absl::Duration timeout,
                                 uint64_t round) {
  const absl::Duration began = now();
  const Buffer request(wire::Encode(call));
  const net::Priority priority = request.size() > kBulkBytes ? net::Priority::kBulk : net::Priority::kControl;
  absl::StatusOr<Buffer> reply = co_await env_.transport.Call(id, "consensus.lead", request, timeout, priority);
  GDF_CO_RETURN_IF_ERROR(reply.status());
  GDF_CO_ASSIGN_OR_RETURN(const wire::LeadAnswer answer, wire::DecodeLeadAnswer(reply->view()));
  if (round == round_) Heard(*peer, answer, began);
  co_return absl::OkStatus();
}

void Replica::Heard(Peer& peer, const wire::LeadAnswer& answer, absl::Duration began) {
  if (answer.news) {
    (void)Learn(*answer.news);  // kept as the problem
    return Regroup();
  }
  if (answer.since > since_) return;
  peer.applied = answer.applied;
  peer.wake.Push(true);
  if (answer.since < since_) return;  // it is told what was decided, and takes part then
  if (answer.term > ballot_.term) {
    (void)Adopt(answer.term);
    return;
  }
  const bool led = leading();
  peer.confirmed = std::max(peer.confirmed, began);
  peer.holds = std::max(peer.holds, answer.holds);
  Decide();
  Pump();
  if (!led && leading() && on_leading_) on_leading_();
}

bool Replica::Behind(const Peer& peer) const {
  if (!peer.applied) return false;
  return *peer.applied < env_.state.last_applied() || (!ballot_.tail.empty() && peer.holds < last());
}

absl::StatusOr<wire::LeadCall> Replica::NextFor(const Peer& peer) {
  const uint64_t applied = env_.state.last_applied();
  // Who holds what is decided takes that from its own disk.
  const uint64_t after = peer.holds >= applied ? applied : std::min(*peer.applied, applied);
  wire::LeadCall call{since_, ballot_.term, {}, {}, false, applied};
  GDF_ASSIGN_OR_RETURN(call.decided, Decided(after, kBatchBytes));
  // The tail goes whole or not at all, and never with so much else that the message is too large.
  if (call.decided.end() == applied && (after == applied || ballot_.tail.empty())) {
    call.tail = ballot_.tail;
    call.whole = true;
  }
  return call;
}

std::vector<Replica::Proposal> Replica::TakeBatch() {
  std::vector<Proposal> batch;
  size_t bytes = 0;
  int64_t at_unix_ms = std::max(env_.state.last_time_unix_ms(),
                                absl::ToUnixMillis(env_.transport.executor().clock().Now()));
  while (!queue_.empty() && batch.size() < kBatchCommands) {
    wire::Command& command = queue_.front().command;
    command.at_unix_ms = at_unix_ms;  // the calendar may jump back, the log does not
    const size_t size = wire::EncodeCommand(command).size();
    if (!batch.empty() && bytes + size > kBatchBytes) break;
    bytes += size;
    const bool chooses = std::holds_alternative<wire::AddCoordinator>(command.body) ||
                         std::holds_alternative<wire::RemoveCoordinator>(command.body) ||
                         std::holds_alternative<wire::RecoverNetwork>(command.body);
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
    if (chooses) break;  // others decide what comes after
  }
  return batch;
}

void Replica::Pump() {
  while (leading() && ballot_.tail.empty() && !queue_.empty()) {
    std::vector<Proposal> batch = TakeBatch();
    std::vector<wire::Command> commands;
    for (const Proposal& proposal : batch) commands.push_back(proposal.command);
    absl::StatusOr<std::vector<state::State::Outcome>> outcomes = env_.state.Try(commands);
    std::vector<std::string> tail;
    for (size_t i = 0; outcomes.ok() && i < batch.size(); ++i) {
      state::State::Outcome& outcome = (*outcomes)[i];
      batch[i].result = std::move(outcome.result);
      if (outcome.entry) tail.push_back(wire::EncodeCommand(commands[i]));
    }
    absl::Status saved = outcomes.status();
    if (saved.ok() && !tail.empty()) saved = SaveTail(ballot_.term, std::move(tail));
    if (!saved.ok()) {
      for (const Proposal& proposal : batch) proposal.done.Set(saved);
      continue;
    }
    if (ballot_.tail.empty()) {
      for (Proposal& proposal : batch) proposal.done.Set(std::move(proposal.result));
      continue;
    }
    flight_ = std::move(batch);
    for (auto& [id, peer] : peers_) peer->wake.Push(true);
  }
}

// Of an earlier leader's entries too, once they are this one's: never by counting who has them from another term.
void Replica::Decide() {
  if (ballot_.tail.empty()) return;
  size_t holders = 1;
  for (const auto& [id, peer] : peers_) holders += peer->holds >= last() ? 1 : 0;
  if (holders < majority()) return;
  while (!ballot_.tail.empty()) {
    const std::string entry = ballot_.tail.front();
    if (absl::Status applied = ApplyNext(entry); !applied.ok()) {
      Log(LogLevel::kError, "not_applied", {{"why", applied}});
      return Follow(std::nullopt);
    }
    if (env_.state.coordinators_since() != since_) break;
  }
  for (Proposal& proposal : std::exchange(flight_, {})) proposal.done.Set(std::move(proposal.result));
  if (env_.state.coordinators_since() != since_) return Regroup();
  settled_ = true;
  for (auto& [id, peer] : peers_) peer->wake.Push(true);
  Pump();
}

}  // namespace gdf::consensus
