// How a peer gets the links that streams need: by dialling it, by asking it to dial, or by way of a relay.
#include <algorithm>
#include <asio/post.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/net/endpoint.h"
#include "core/net/peer_table.h"

namespace gdf::net {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(250);
constexpr absl::Duration kMaxBackoff = absl::Seconds(5);
// A peer that was asked for a bulk connection and has not dialled is asked again.
constexpr absl::Duration kWantInterval = absl::Seconds(2);
// A dial that takes longer is not waited for alone where there are relays; it goes on.
constexpr absl::Duration kSlowDial = absl::Seconds(2);
constexpr size_t kMaxRelaysTried = 3;
// A peer that is reached by a relay is dialled this often all the same.
constexpr absl::Duration kFirstDirectRetry = absl::Seconds(10);
constexpr absl::Duration kLastDirectRetry = absl::Minutes(5);

}  // namespace

PeerTable::LinkPtr PeerTable::Pick(const NodeId& id, Priority priority) {
  const auto it = peers_.find(id);
  if (it == peers_.end()) return nullptr;
  Peer& peer = it->second;
  if (priority == Priority::kControl) return Main(peer);
  LinkPtr best;
  for (const LinkPtr& link : peer.links) {
    if (!link->stripe() || !link->usable()) continue;
    if (!best || link->stream_count() < best->stream_count()) best = link;
  }
  if (best && best->stream_count() > 0) WantStripe(id, peer);
  return best;
}

void PeerTable::WantStripe(const NodeId& id, Peer& peer) {
  const LinkPtr main = Main(peer);
  if (!main || peer.dialling_stripe || Stripes(peer) >= world_->options.max_stripes) return;
  if (main->connection().dialled() && main->connection().via()) {
    peer.dialling_stripe = true;
    detour_(id, Purpose::kStripe, {*main->connection().via()}, [weak = weak_from_this(), id](absl::StatusOr<Dialled> result) {
      if (const std::shared_ptr<PeerTable> table = weak.lock()) table->OnStripe(id, std::move(result));
    });
  } else if (main->connection().dialled()) {
    Dial(id, Purpose::kStripe, {EndpointText(main->connection().remote())});
  } else if (Now() >= peer.next_want) {
    peer.next_want = Now() + kWantInterval;
    main->connection().Send({.type = FrameType::kWantStripe, .stream = 0, .arg = 0, .payload = {}});
  }
}

absl::StatusOr<absl::Duration> PeerTable::Connect(const NodeId& id, Priority priority) {
  Peer& peer = peers_[id];
  if (priority == Priority::kBulk && Main(peer)) {
    WantStripe(id, peer);
    return kWantInterval;
  }
  if (peer.dialling_main || peer.detouring) return absl::InfiniteDuration();
  if (peer.addresses.empty() && !MayDetour(id)) {
    return absl::UnavailableError(
        absl::StrCat("node ", id.Short(), " is not connected and has no known address"));
  }
  if (peer.next_dial > Now()) return peer.next_dial - Now();
  if (peer.addresses.empty()) {
    peer.direct_error = absl::UnavailableError(absl::StrCat("node ", id.Short(), " has no known address"));
    DetourToMain(id);
  } else {
    Dial(id, Purpose::kMain, peer.addresses);
    DetourWhenSlow(id);
  }
  return absl::InfiniteDuration();
}

Task<absl::StatusOr<std::unique_ptr<Stream>>> PeerTable::Open(std::shared_ptr<PeerTable> table,
                                                              NodeId peer, std::string method,
                                                              Priority priority,
                                                              absl::Duration timeout) {
  if (method.empty() || method.size() > kMaxMethodBytes) {
    co_return absl::InvalidArgumentError(absl::StrCat("bad method name '", method, "'"));
  }
  absl::StatusOr<LinkPtr> link =
      co_await WaitForLink(std::move(table), peer, priority, timeout);
  if (!link.ok()) co_return link.status();
  co_return (*link)->Open(method, priority);
}

Task<absl::Status> PeerTable::Reach(std::shared_ptr<PeerTable> table, NodeId peer,
                                    absl::Duration timeout) {
  const absl::StatusOr<LinkPtr> link =
      co_await WaitForLink(std::move(table), peer, Priority::kControl, timeout);
  co_return link.status();
}

Task<absl::StatusOr<PeerTable::LinkPtr>> PeerTable::WaitForLink(std::shared_ptr<PeerTable> table,
                                                                NodeId peer, Priority priority,
                                                                absl::Duration timeout) {
  if (peer == table->world_->tls.self()) {
    co_return absl::InvalidArgumentError("a node does not call itself");
  }
  const absl::Duration deadline = table->Now() + timeout;
  const Peer* known = table->Find(peer);
  const uint64_t failures_before = known ? known->failure_count : 0;
  while (true) {
    if (table->shut_down_) co_return ShutDownError();
    if (table->AdmissionOf(peer) == Admission::kRefused) {
      co_return absl::PermissionDeniedError(
          absl::StrCat("node ", peer.Short(), " is not admitted to this network"));
    }
    if (const LinkPtr link = table->Pick(peer, priority)) co_return link;
    known = table->Find(peer);
    if (known && known->failure_count > failures_before) co_return known->last_error;
    absl::StatusOr<absl::Duration> wait = table->Connect(peer, priority);
    if (!wait.ok()) co_return wait.status();
    const absl::Duration left = deadline - table->Now();
    known = table->Find(peer);
    if (left <= absl::ZeroDuration()) {
      co_return absl::DeadlineExceededError(absl::StrCat(
          "no connection to node ", peer.Short(), " within ", HumanDuration(timeout),
          known && !known->last_error.ok() ? "; last try: " : "",
          known ? known->last_error.message() : ""));
    }
    OneShot<bool> wake(table->executor_);
    const absl::Duration nap = std::min(left, *wait);
    if (nap != absl::InfiniteDuration()) wake.SetAfter(nap, false);
    std::vector<OneShot<bool>>& waiting = table->peers_[peer].waiting;
    std::erase_if(waiting, [](const OneShot<bool>& other) { return other.done(); });
    waiting.push_back(wake);
    co_await wake.Wait();
  }
}

void PeerTable::Dial(const NodeId& id, Purpose purpose, std::vector<std::string> addresses) {
  Peer& peer = peers_[id];
  (purpose == Purpose::kMain ? peer.dialling_main : peer.dialling_stripe) = true;
  if (purpose == Purpose::kMain) peer.detoured = false;
  auto done = [weak = weak_from_this(), world = world_, id, purpose](absl::StatusOr<Dialled> result,
                                                                     Findings found) {
    world->executor.Post([weak, id, purpose, result = std::move(result), found] {
      if (const std::shared_ptr<PeerTable> table = weak.lock()) {
        table->OnDialled(id, purpose, result, found);
      }
    });
  };
  asio::post(world_->io, [world = world_, id, purpose, addresses = std::move(addresses),
                          done = std::move(done)]() mutable {
    std::make_shared<Dialer>(world, id, purpose, std::move(addresses), std::move(done))->Start();
  });
}

void PeerTable::OnDialled(const NodeId& id, Purpose purpose, absl::StatusOr<Dialled> result,
                          Findings found) {
  if (shut_down_) return;
  Peer& peer = peers_[id];
  peer.found = std::move(found);
  if (purpose == Purpose::kStripe) return OnStripe(id, std::move(result));
  peer.dialling_main = false;
  peer.direct_error = AddDialled(std::move(result), purpose);
  if (peer.direct_error.ok() || Main(peer)) return;
  if (!peer.detoured && MayDetour(id)) return DetourToMain(id);
  MainFailed(id, peer.direct_error);
}

void PeerTable::OnStripe(const NodeId& id, absl::StatusOr<Dialled> result) {
  if (shut_down_) return;
  peers_[id].dialling_stripe = false;
  absl::Status status = AddDialled(std::move(result), Purpose::kStripe);
  if (status.ok()) return;
  Peer& peer = peers_[id];
  ++peer.failure_count;
  peer.last_error = std::move(status);
  Wake(peer);
}

absl::Status PeerTable::AddDialled(absl::StatusOr<Dialled> result, Purpose purpose) {
  GDF_RETURN_IF_ERROR(result.status());
  if (absl::Status status = MayJoin(*result->connection); !status.ok()) {
    result->connection->Close(status);
    return status;
  }
  if (purpose == Purpose::kMain) peers_[result->connection->peer()].failures = 0;
  AddLink(std::move(result->connection), result->hello, purpose);
  return absl::OkStatus();
}

void PeerTable::MainFailed(const NodeId& id, absl::Status why) {
  Peer& peer = peers_[id];
  if (peer.dialling_main || peer.detouring || Main(peer)) return;
  const int doublings = std::min(peer.failures++, 10);
  peer.next_dial = Now() + std::min(kMaxBackoff, kFirstBackoff * (1 << doublings));
  ++peer.failure_count;
  peer.last_error = std::move(why);
  Wake(peer);
}

// A relay itself is reached directly or not at all, so that no detour waits for another.
bool PeerTable::MayDetour(const NodeId& id) const {
  return detour_ && !relays_.contains(id) && !RelaysFor(id).empty() && AdmissionOf(id) == Admission::kMember;
}

// The nearest of those that are connected.
std::vector<NodeId> PeerTable::RelaysFor(const NodeId& id) const {
  std::vector<std::pair<absl::Duration, NodeId>> connected;
  for (const NodeId& relay : relays_) {
    if (relay != id && ReachedDirectly(relay)) connected.emplace_back(counters(relay).rtt, relay);
  }
  std::sort(connected.begin(), connected.end());
  std::vector<NodeId> nearest;
  for (size_t i = 0; i < std::min(connected.size(), kMaxRelaysTried); ++i) nearest.push_back(connected[i].second);
  return nearest;
}

void PeerTable::DetourWhenSlow(const NodeId& id) {
  if (!MayDetour(id)) return;
  executor_.PostAfter(kSlowDial, [weak = weak_from_this(), id] {
    const std::shared_ptr<PeerTable> table = weak.lock();
    if (!table || table->shut_down_) return;
    const Peer& peer = table->peers_[id];
    if (peer.dialling_main && !peer.detoured && table->MayDetour(id) && !table->Main(peer)) table->DetourToMain(id);
  });
}

void PeerTable::DetourToMain(const NodeId& id) {
  Peer& peer = peers_[id];
  peer.detouring = peer.detoured = true;
  detour_(id, Purpose::kMain, RelaysFor(id), [weak = weak_from_this(), id](absl::StatusOr<Dialled> result) {
    const std::shared_ptr<PeerTable> table = weak.lock();
    if (!table || table->shut_down_) return;
    Peer& reached = table->peers_[id];
    reached.detouring = false;
    const absl::Status status = table->AddDialled(std::move(result), Purpose::kMain);
    if (status.ok()) {
      reached.direct_tries = 0;
      reached.next_direct = table->Now() + kFirstDirectRetry;
      return;
    }
    table->MainFailed(id, absl::UnavailableError(absl::StrCat(reached.direct_error.message(), "; ", status.message())));
  });
}

// A direct path may have come to work.
void PeerTable::TryDirectly(const NodeId& id, Peer& peer) {
  const LinkPtr main = Main(peer);
  if (!main || !main->connection().via() || peer.addresses.empty() || peer.dialling_main || peer.next_direct > Now()) return;
  peer.next_direct = Now() + std::min(kLastDirectRetry, kFirstDirectRetry * (1 << std::min(peer.direct_tries++, 10)));
  Dial(id, Purpose::kMain, peer.addresses);
}

}  // namespace gdf::net
