#include "core/membership/coordinator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"
#include "core/trust/node_key.h"
#include "core/wire/membership_messages.h"

namespace gdf::membership {
namespace {

// Log entries in one message; the transport's own limit is a little above 1 MiB.
constexpr size_t kUpdateBytes = size_t{512} << 10;
// How often it is looked who is online, so that a lost peer event heals.
constexpr absl::Duration kPresenceInterval = absl::Seconds(30);
// To all members together, where there are more than a few: what happens faster is told together, so that a large network costs its
// coordinator more bytes but no more messages.
constexpr double kUpdatesPerSec = 10'000;
constexpr size_t kFewMembers = 32;
// Without a leader: longer than it takes to choose one, soon enough for members to find a coordinator that hears one.
constexpr absl::Duration kStrandedAfter = absl::Seconds(10);
constexpr absl::Duration kWatchCallTimeout = absl::Seconds(10);
// One, and those that the peer has lost but this node not yet. One more takes the oldest's place: a
// peer on a bad line comes back quickly, often.
constexpr int kMaxWatchesPerPeer = 4;
// Of streams, with those that have not said what they want and those that are being ended.
constexpr int kMaxWatchStreamsPerPeer = 4 * kMaxWatchesPerPeer;

absl::Status Stranded() {
  return absl::UnavailableError("this coordinator hears none that leads: most of them are lost, or cut off from it");
}

}  // namespace

Coordinator::Coordinator(net::Transport& transport, state::State& state, consensus::Replica& replica)
    : transport_(transport), state_(state), replica_(replica), presence_(transport, state), tasks_(transport.executor()) {
  state_watcher_ = state_.AddWatcher([this](uint64_t) { TellSoon(); });
  net::MethodOptions watch;
  watch.max_concurrent_per_peer = kMaxWatchStreamsPerPeer;
  net::MethodOptions open;
  open.open_to_strangers = true;
  open.max_concurrent_per_peer = 1;
  registrations_.push_back(transport_.HandleCall(
      "membership.join",
      [this](NodeId peer, Buffer request) { return ServeJoin(peer, std::move(request)); }, open));
  registrations_.push_back(transport_.HandleCall(
      "membership.propose",
      [this](NodeId peer, Buffer request) { return ServePropose(peer, std::move(request)); }));
  registrations_.push_back(transport_.HandleStream(
      "membership.watch",
      [this](NodeId peer, std::unique_ptr<net::Stream> stream) {
        return ServeWatch(peer, std::move(stream));
      },
      watch));
  registrations_.push_back(
      transport_.WatchPeers([this](NodeId peer, bool up, const absl::Status&) {
        presence_.PeerChanged(peer, up);
        TellSoon();
      }));
  tasks_.Spawn(EndWatchesWhenStranded());
  tasks_.Spawn(RecheckPresence());
}

Coordinator::~Coordinator() {
  registrations_.clear();
  state_.RemoveWatcher(state_watcher_);
}

bool Coordinator::stranded() const { return replica_.Leaderless() > kStrandedAfter; }

Task<void> Coordinator::EndWatchesWhenStranded() {
  while (true) {
    co_await Sleep(transport_.executor(), kStrandedAfter / 2);
    if (!stranded()) continue;
    for (Watcher& watcher : watchers_) {
      watcher.stream.Cancel(Stranded());
      watcher.wake.Push(false);
    }
  }
}

Task<void> Coordinator::RecheckPresence() {
  while (true) {
    co_await Sleep(transport_.executor(), kPresenceInterval);
    presence_.Recheck();
    if (announced_ != presence_.version()) TellSoon();
  }
}

void Coordinator::TellSoon() {
  if (telling_) return;
  const absl::Duration now = transport_.executor().clock().Monotonic();
  if (now >= tell_from_) return TellNow();
  telling_ = true;
  tasks_.Spawn(TellAfter(tell_from_ - now));
}

Task<void> Coordinator::TellAfter(absl::Duration delay) {
  co_await Sleep(transport_.executor(), delay);
  telling_ = false;
  TellNow();
}

void Coordinator::TellNow() {
  // A node that joins is connected before it is a member, one that is put out for a while after.
  if (std::exchange(members_since_, state_.members_since()) != state_.members_since()) presence_.Recheck();
  announced_ = presence_.version();
  if (watchers_.size() > kFewMembers) {
    tell_from_ = transport_.executor().clock().Monotonic() + absl::Seconds(static_cast<double>(watchers_.size()) / kUpdatesPerSec);
  }
  Wake();
}

void Coordinator::Wake() {
  for (Watcher& watcher : watchers_) watcher.wake.Push(true);
}

void Coordinator::MakeRoom(const NodeId& peer) {
  int newer = 0;
  for (auto it = watchers_.rbegin(); it != watchers_.rend(); ++it) {
    if (it->peer != peer || ++newer < kMaxWatchesPerPeer) continue;
    it->stream.Cancel(absl::AbortedError("a newer watch of this node takes its place"));
    it->wake.Push(false);
  }
}

Task<absl::StatusOr<Buffer>> Coordinator::ServeJoin(NodeId peer, Buffer request) {
  GDF_CO_ASSIGN_OR_RETURN(wire::JoinCall call, wire::DecodeJoinCall(request.view()));
  GDF_CO_ASSIGN_OR_RETURN(wire::Command command, wire::DecodeCommand(call.command));
  const auto* join = std::get_if<wire::Join>(&command.body);
  if (join == nullptr)
    co_return absl::InvalidArgumentError("a join call must carry a join command");
  if (trust::NodeIdOf(join->public_key) != peer) {
    co_return absl::PermissionDeniedError(
        "the key to be joined is not the one this connection was made with");
  }
  command.actor = peer;
  GDF_CO_ASSIGN_OR_RETURN(wire::CommandResult result, co_await replica_.Propose(std::move(command)));
  GDF_CO_ASSIGN_OR_RETURN(state::Network network, state_.network());
  // Anybody may try: a refusal leaves no trace that could fill a disk.
  Log(result.status.ok() ? LogLevel::kInfo : LogLevel::kDebug, "join",
      {{"node", peer.Short()}, {"result", result.status}});
  if (result.status.ok()) transport_.RecheckAdmission();
  co_return Buffer(
      wire::Encode(wire::JoinAnswer{wire::EncodeCommandResult(result), network.genesis_record}));
}

Task<absl::StatusOr<Buffer>> Coordinator::ServePropose(NodeId peer, Buffer request) {
  GDF_CO_RETURN_IF_ERROR(
      allowances_[peer].Take(request.size(), transport_.executor().clock().Monotonic()));
  GDF_CO_ASSIGN_OR_RETURN(wire::Command command, wire::DecodeCommand(request.view()));
  command.actor = peer;
  GDF_CO_ASSIGN_OR_RETURN(wire::CommandResult result, co_await replica_.Propose(std::move(command)));
  co_return Buffer(wire::EncodeCommandResult(result));
}

absl::Status Coordinator::CheckNotAhead(const NodeId& peer, uint64_t from_index) {
  const uint64_t here = state_.last_applied();
  if (from_index > here + 1) {
    if (!replica_.leading()) return absl::UnavailableError("this coordinator is behind the others");
    Ahead& ahead = ahead_.try_emplace(peer, Ahead{peer, 0, here}).first->second;
    ahead.entries = from_index - 1;
    return absl::DataLossError(absl::StrCat(
        "node ", peer.Short(), " has ", ahead.entries, " log entries, this coordinator ", here,
        ": the coordinator's state was rolled back; give it a newer copy of its state folder"));
  }
  const auto known = ahead_.find(peer);
  const bool anew = known != ahead_.end() && from_index <= known->second.entries;
  if (anew) ahead_.erase(known);
  return absl::OkStatus();
}

std::optional<Coordinator::Ahead> Coordinator::FurthestAhead() const {
  std::optional<Ahead> furthest;
  for (const auto& [node, ahead] : ahead_) {
    if (!state_.CheckMember(node, trust::Operation::kReadState).ok()) continue;
    if (!furthest || ahead.entries > furthest->entries) furthest = ahead;
  }
  return furthest;
}

Task<void> Coordinator::ServeWatch(NodeId peer, std::unique_ptr<net::Stream> stream) {
  absl::StatusOr<std::optional<Buffer>> request = co_await stream->Receive(kWatchCallTimeout);
  if (!request.ok() || !request->has_value()) co_return;
  absl::StatusOr<wire::WatchCall> call = wire::DecodeWatchCall((*request)->view());
  if (!call.ok()) {
    stream->Cancel(call.status());
    co_return;
  }
  if (stranded()) {
    stream->Cancel(Stranded());
    co_return;
  }
  if (absl::Status known = CheckNotAhead(peer, call->from_index); !known.ok()) {
    stream->Cancel(std::move(known));
    co_return;
  }
  // Destroyed with this frame, also when the registration goes while the stream is open.
  struct Listed {
    std::list<Watcher>& list;
    std::list<Watcher>::iterator it;
    ~Listed() { list.erase(it); }
  };
  MakeRoom(peer);
  Listed listed{watchers_,
                watchers_.emplace(watchers_.end(), transport_.executor(), peer, *stream)};
  const absl::Status ended = co_await StreamLog(*stream, *listed.it, call->from_index);
  if (!ended.ok()) stream->Cancel(ended);
}

bool Coordinator::PresenceIsNews(const Told& told) const {
  return !told.presence || *told.presence < announced_ || told.leader != replica_.leader();
}

absl::Status Coordinator::MakeUpdate(const Told& told) {
  const bool presence = PresenceIsNews(told);
  const uint64_t tip = state_.last_applied();
  const bool made = update_.before == told && update_.tip == tip &&
                    (!presence || (update_.after.presence == presence_.version() && update_.after.leader == replica_.leader()));
  if (made) return absl::OkStatus();
  wire::WatchUpdate update;
  Told after = told;
  // Who is online goes in messages of its own: together with entries it could exceed one.
  if (presence) {
    presence_.Tell(told.presence, update);
    update.leader = replica_.leader();
    after.presence = presence_.version();
    after.leader = update.leader;
  } else {
    GDF_ASSIGN_OR_RETURN(std::vector<state::LogEntry> entries, state_.LogEntries(told.next, kUpdateBytes));
    for (state::LogEntry& entry : entries) {
      if (update.entries.size() == wire::kMaxEntriesPerUpdate) break;
      after.next = entry.index + 1;
      update.entries.push_back({entry.index, std::move(entry.command)});
    }
  }
  GDF_ASSIGN_OR_RETURN(update.log_digest, state_.LogDigest(after.next - 1));
  update_ = {told, after, tip, Buffer(wire::Encode(update))};
  return absl::OkStatus();
}

Task<absl::Status> Coordinator::StreamLog(net::Stream& stream, Watcher& watcher, uint64_t next) {
  Told told{next, std::nullopt, std::nullopt};
  while (true) {
    while (!PresenceIsNews(told) && told.next > state_.last_applied()) {
      const std::optional<bool> news = co_await watcher.wake.Pop();
      if (news == false) co_return absl::OkStatus();
    }
    GDF_CO_RETURN_IF_ERROR(MakeUpdate(told));
    told = update_.after;
    GDF_CO_RETURN_IF_ERROR(co_await stream.Send(update_.bytes));
  }
}

}  // namespace gdf::membership
