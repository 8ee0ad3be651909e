#include "core/net/peer_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/net/endpoint.h"

namespace gdf::net {
namespace {

constexpr size_t kSpareConnections =
    4;  // of a peer beyond its bulk ones: dialled at the same time, or dying

void AddTo(TrafficCounters& sum, const TrafficCounters& more) {
  sum.bytes_sent += more.bytes_sent;
  sum.bytes_received += more.bytes_received;
}

// The rate of what goes over a connection for control says nothing about the path.
void Close(TrafficCounters& closed, const Link& link) {
  const TrafficCounters last = link.connection().counters();
  AddTo(closed, last);
  if (link.stripe() && last.rate_bytes_per_sec > 0) closed.rate_bytes_per_sec = last.rate_bytes_per_sec;
}

}  // namespace

PeerTable::PeerTable(std::shared_ptr<IoWorld> world)
    : world_(std::move(world)), executor_(world_->executor), methods_(executor_) {}

absl::Status PeerTable::ShutDownError() { return absl::UnavailableError("the transport has shut down"); }

Admission PeerTable::AdmissionOf(const NodeId& peer) const {
  return policy_ ? policy_(peer) : Admission::kStranger;
}

const PeerTable::Peer* PeerTable::Find(const NodeId& peer) const {
  const auto it = peers_.find(peer);
  return it == peers_.end() ? nullptr : &it->second;
}

int PeerTable::Stripes(const Peer& peer) {
  return static_cast<int>(std::count_if(peer.links.begin(), peer.links.end(),
                                        [](const LinkPtr& link) { return link->stripe(); }));
}

// Both sides choose alike: a direct connection before one by a relay and, when they have dialled each
// other, the one dialled by the smaller NodeId.
PeerTable::LinkPtr PeerTable::Main(const Peer& peer) const {
  LinkPtr best;
  std::pair<bool, bool> best_rank;
  for (const LinkPtr& link : peer.links) {
    if (link->stripe() || !link->usable()) continue;
    const bool preferred = link->connection().dialled() == (world_->tls.self() < link->peer());
    const std::pair rank(!link->connection().via(), preferred);
    if (best && best_rank > rank) continue;
    best = link;
    best_rank = rank;
  }
  return best;
}

absl::Status PeerTable::MayJoin(const Connection& connection) const {
  const NodeId& id = connection.peer();
  const Admission admission = AdmissionOf(id);
  if (admission == Admission::kRefused) {
    return absl::PermissionDeniedError(
        absl::StrCat("node ", id.Short(), " is not admitted to this network"));
  }
  const Peer* peer = Find(id);
  const size_t most = static_cast<size_t>(world_->options.max_stripes) + kSpareConnections;
  if (peer && peer->links.size() >= most) {
    return absl::ResourceExhaustedError(absl::StrCat("node ", id.Short(), " has ",
                                                     peer->links.size(),
                                                     " connections already, as many as it may"));
  }
  if (admission == Admission::kStranger && !connection.dialled()) return MayVisit(connection);
  return absl::OkStatus();
}

absl::Status PeerTable::MayVisit(const Connection& connection) const {
  const asio::ip::address place = PlaceOf(connection.remote());
  int strangers = 0;
  int neighbours = 0;
  for (const auto& [other, link] : links_) {
    if (other->dialled() || Find(link->peer())->admission != Admission::kStranger) continue;
    ++strangers;
    if (PlaceOf(other->remote()) == place) ++neighbours;
  }
  if (strangers >= world_->options.max_strangers) {
    return absl::ResourceExhaustedError(
        "too many nodes that are not members are connected; try again later");
  }
  if (neighbours >= world_->options.max_strangers_per_address) {
    return absl::ResourceExhaustedError(absl::StrCat("too many nodes that are not members are "
                                                     "connected from ",
                                                     place.to_string(), "; try again later"));
  }
  return absl::OkStatus();
}

void PeerTable::OnAccepted(std::shared_ptr<Connection> connection, const Hello& hello) {
  if (shut_down_) return;
  if (hello.purpose == Purpose::kCircuit && seat_ && AdmissionOf(connection->peer()) == Admission::kMember) {
    return seat_(connection, hello);
  }
  absl::Status status = MayJoin(*connection);
  if (hello.purpose == Purpose::kCircuit) status = absl::PermissionDeniedError("circuits are for members");
  if (!status.ok()) {
    Log(LogLevel::kInfo, "connection_refused", {{"reason", status}});
    return connection->Close(std::move(status));
  }
  AddLink(std::move(connection), hello, hello.purpose);
}

void PeerTable::AddLink(std::shared_ptr<Connection> connection, const Hello& hello,
                        Purpose purpose) {
  const NodeId id = connection->peer();
  // Connections of the peer's former life are dead, even if TCP does not know it yet.
  for (const LinkPtr& link : std::vector<LinkPtr>(peers_[id].links)) {
    if (link->incarnation() == hello.incarnation) continue;
    const std::shared_ptr<Connection> old = link->connection().shared_from_this();
    const absl::Status why = Displaced(id, link->incarnation(), hello.incarnation);
    old->Close(why);
    RemoveLink(old, why);
  }
  Peer& peer = peers_[id];
  peer.admission = AdmissionOf(id);
  const bool was_up = Main(peer) != nullptr;
  auto link = std::make_shared<Link>(executor_, connection, hello, purpose,
                                     world_->options.stream_window_bytes,
                                     [this](Link& over) { CloseIfDrained(over); });
  links_[connection.get()] = link;
  peer.links.push_back(link);
  peer.next_want = absl::ZeroDuration();
  peer.found.nobody_listens = false;
  connection->Start(weak_from_this());
  DrainSpares(peer);
  Wake(peer);
  if (!was_up && purpose == Purpose::kMain) Notify(id, true, absl::OkStatus());
}

absl::Status PeerTable::Displaced(const NodeId& id, uint64_t old, uint64_t by) {
  Peer& peer = peers_[id];
  const bool back = peer.displaced == by;
  peer.displaced = old;
  if (!back) return absl::UnavailableError(absl::StrCat("node ", id.Short(), " has restarted"));
  const absl::Status twice = absl::UnavailableError(absl::StrCat(
      "two programs run with the key of node ", id.Short(), ", perhaps one of them on a copy of its state folder: stop one"));
  Log(LogLevel::kWarning, "key_in_use_twice", {{"node", id.Short()}, {"why", twice}});
  return twice;
}

void PeerTable::DrainSpares(Peer& peer) {
  const LinkPtr main = Main(peer);
  for (const LinkPtr& link : peer.links) {
    const bool around = link->connection().via() && main && !main->connection().via();
    const bool spare = link->stripe() ? around : link != main;
    if (spare && link->connection().dialled()) link->Drain();
  }
}

void PeerTable::CloseIfDrained(Link& link) {
  // The side that dialled closes; the other's last frames have arrived when its streams are over
  // here.
  if (link.drained() && link.connection().dialled()) {
    link.connection().CloseWhenSent(absl::UnavailableError("this connection was no longer needed"));
  }
}

void PeerTable::OnFrame(const std::shared_ptr<Connection>& connection, Frame frame) {
  const auto it = links_.find(connection.get());
  if (it == links_.end()) return;
  const LinkPtr link = it->second;
  absl::Status status;
  switch (frame.type) {
    case FrameType::kOpen:
      status = link->CheckOpen(frame);
      if (status.ok()) OnOpen(link, frame);
      break;
    case FrameType::kDrain:
      link->PeerDrains();
      link->Drain();
      CloseIfDrained(*link);
      break;
    case FrameType::kWantStripe:
      if (connection->dialled()) WantStripe(link->peer(), peers_[link->peer()]);
      break;
    default:
      status = link->OnStreamFrame(std::move(frame));
  }
  if (status.ok()) return;
  Log(LogLevel::kWarning, "protocol_error", {{"node", link->peer().Short()}, {"reason", status}});
  connection->Close(status);
  RemoveLink(connection,
             absl::UnavailableError(absl::StrCat("node ", link->peer().Short(),
                                                 " broke the protocol: ", status.message())));
}

void PeerTable::OnOpen(const LinkPtr& link, const Frame& frame) {
  const NodeId id = link->peer();
  absl::StatusOr<MethodOptions> options =
      methods_.Check(frame.payload.view(), id, peers_[id].admission);
  if (!options.ok()) return link->Refuse(frame.stream, options.status());
  methods_.Run(frame.payload.view(), id, link->Accept(frame, *options));
}

void PeerTable::OnClosed(const std::shared_ptr<Connection>& connection, const absl::Status& why) {
  RemoveLink(connection, why);
}

void PeerTable::RemoveLink(const std::shared_ptr<Connection>& connection, const absl::Status& why) {
  const auto it = links_.find(connection.get());
  if (it == links_.end()) return;
  const LinkPtr link = it->second;
  const NodeId id = link->peer();
  links_.erase(it);
  Peer& peer = peers_[id];
  std::erase(peer.links, link);
  Close(peer.closed, *link);
  link->EndStreams(why);
  const bool mains_left = std::any_of(peer.links.begin(), peer.links.end(),
                                      [](const LinkPtr& other) { return !other->stripe(); });
  if (!link->stripe() && !mains_left) {
    // Bulk connections alone cannot reach the peer; they go with the last main one.
    for (const LinkPtr& stripe : std::exchange(peer.links, {})) {
      links_.erase(&stripe->connection());
      Close(peer.closed, *stripe);
      stripe->connection().Close(absl::UnavailableError("the main connection is gone"));
      stripe->EndStreams(why);
    }
  }
  Wake(peer);
  ForgetIfUnknown(id);
  if (!link->stripe() && !mains_left) Notify(id, false, why);
}

// Anybody can make up node ids: those of passing strangers must not pile up here.
void PeerTable::ForgetIfUnknown(const NodeId& id) {
  const auto it = peers_.find(id);
  if (it == peers_.end()) return;
  const Peer& peer = it->second;
  if (!peer.links.empty() || !peer.addresses.empty() || peer.dialling_main ||
      peer.dialling_stripe || peer.detouring || peer.admission == Admission::kMember) {
    return;
  }
  AddTo(forgotten_, peer.closed);
  peers_.erase(it);
}

void PeerTable::Wake(Peer& peer) {
  for (const OneShot<bool>& wake : std::exchange(peer.waiting, {})) wake.Set(true);
}

void PeerTable::Notify(const NodeId& peer, bool up, const absl::Status& why) {
  std::vector<uint64_t> ids;
  for (const auto& [id, watcher] : *watchers_) ids.push_back(id);
  for (const uint64_t id : ids) {
    const auto it = watchers_->find(id);
    if (it == watchers_->end()) continue;  // an earlier one has unregistered it
    const Transport::PeerWatcher watcher = it->second;
    watcher(peer, up, why);
  }
}

void PeerTable::SetAddresses(const NodeId& peer, std::vector<std::string> addresses) {
  Peer& entry = peers_[peer];
  if (entry.addresses == addresses) return;
  entry.addresses = std::move(addresses);
  entry.failures = 0;
  entry.next_dial = absl::ZeroDuration();
  entry.direct_tries = 0;
  entry.next_direct = absl::ZeroDuration();
  Wake(entry);
  ForgetIfUnknown(peer);
}

void PeerTable::RecheckAdmission() {
  std::vector<NodeId> worse;
  for (auto& [id, peer] : peers_) {
    if (peer.links.empty()) continue;
    const Admission before = std::exchange(peer.admission, AdmissionOf(id));
    if (peer.admission < before) worse.push_back(id);
  }
  for (const NodeId& id : worse) {
    Disconnect(id, absl::PermissionDeniedError(
                       absl::StrCat("node ", id.Short(), " may connect no longer: it was removed or banned, or has a new key")));
  }
}

void PeerTable::Disconnect(const NodeId& peer, absl::Status why) {
  const Peer* entry = Find(peer);
  if (entry == nullptr) return;
  if (why.ok()) why = absl::UnavailableError("disconnected");
  for (const LinkPtr& link : std::vector<LinkPtr>(entry->links)) {
    const std::shared_ptr<Connection> connection = link->connection().shared_from_this();
    connection->Close(why);
    RemoveLink(connection, why);
  }
}

bool PeerTable::Connected(const NodeId& peer) const {
  const Peer* entry = Find(peer);
  return entry != nullptr && Main(*entry) != nullptr;
}

bool PeerTable::ReachedDirectly(const NodeId& peer) const {
  const Peer* entry = Find(peer);
  const LinkPtr main = entry == nullptr ? nullptr : Main(*entry);
  return main != nullptr && !main->connection().via();
}

std::vector<std::string> PeerTable::AddressesOf(const NodeId& peer) const {
  const Peer* entry = Find(peer);
  if (entry == nullptr) return {};
  const LinkPtr main = Main(*entry);
  if (main && main->connection().dialled() && !main->connection().via()) {
    return {EndpointText(main->connection().remote())};
  }
  return entry->addresses;
}

std::vector<NodeId> PeerTable::Connected() const {
  std::vector<NodeId> ids;
  for (const auto& [id, peer] : peers_) {
    if (Main(peer)) ids.push_back(id);
  }
  return ids;
}

std::vector<NodeId> PeerTable::AnsweredInstead(const NodeId& peer) const {
  const Peer* entry = Find(peer);
  return entry == nullptr ? std::vector<NodeId>() : entry->found.others;
}

bool PeerTable::NobodyListens(const NodeId& peer) const {
  const Peer* entry = Find(peer);
  return entry != nullptr && entry->found.nobody_listens;
}

Registration PeerTable::Watch(Transport::PeerWatcher watcher) {
  const uint64_t id = next_watcher_++;
  watchers_->emplace(id, std::move(watcher));
  return Registration([weak = std::weak_ptr(watchers_), id] {
    if (const std::shared_ptr<Watchers> watchers = weak.lock()) watchers->erase(id);
  });
}

TrafficCounters PeerTable::counters(const NodeId& peer) const {
  const Peer* entry = Find(peer);
  if (entry == nullptr) return {};
  TrafficCounters sum = entry->closed;
  const LinkPtr main = Main(*entry);
  uint64_t rate = 0;
  for (const LinkPtr& link : entry->links) {
    const TrafficCounters now = link->connection().counters();
    AddTo(sum, now);
    if (link == main) sum.rtt = now.rtt;
    if (link == main && !link->connection().via()) sum.min_rtt = now.min_rtt;
    if (link->stripe()) rate = std::max(rate, now.rate_bytes_per_sec);
  }
  if (rate > 0) sum.rate_bytes_per_sec = rate;
  return sum;
}

std::optional<PeerPath> PeerTable::path(const NodeId& peer) const {
  const Peer* entry = Find(peer);
  const LinkPtr main = entry == nullptr ? nullptr : Main(*entry);
  if (main == nullptr) return std::nullopt;
  const bool clear = std::any_of(entry->links.begin(), entry->links.end(), [](const LinkPtr& link) { return link->connection().clear(); });
  return PeerPath{EndpointText(main->connection().remote()), main->connection().dialled(),
                  static_cast<int>(entry->links.size()), clear, main->connection().via()};
}

TrafficCounters PeerTable::total_counters() const {
  TrafficCounters sum = forgotten_;
  for (const auto& [id, peer] : peers_) AddTo(sum, counters(id));
  return sum;
}

size_t PeerTable::ConnectionCount(const NodeId& peer) const {
  const Peer* entry = Find(peer);
  return entry == nullptr ? 0 : entry->links.size();
}

void PeerTable::StartTicking() {
  const absl::Duration interval = std::min(absl::Seconds(5), world_->options.idle_stripe / 2);
  executor_.PostAfter(interval, [weak = weak_from_this()] {
    const std::shared_ptr<PeerTable> table = weak.lock();
    if (!table || table->shut_down_) return;
    table->Tick();
    table->StartTicking();
  });
}

void PeerTable::Tick() {
  for (auto& [id, peer] : peers_) TryDirectly(id, peer);
  std::vector<LinkPtr> idle;
  for (const auto& [connection, link] : links_) {
    if (link->stream_count() == 0 && Now() - link->idle_since() >= world_->options.idle_stripe) {
      idle.push_back(link);
    }
  }
  for (const LinkPtr& link : idle) {
    if (link->stripe() && link->connection().dialled()) {
      link->Drain();
    } else if (!link->connection().dialled() &&
               peers_[link->peer()].admission == Admission::kStranger) {
      const std::shared_ptr<Connection> connection = link->connection().shared_from_this();
      const absl::Status why = absl::UnavailableError("idle, and not a member of the network");
      connection->Close(why);
      RemoveLink(connection, why);
    }
  }
}

void PeerTable::Shutdown() {
  shut_down_ = true;
  methods_.Clear();
  for (auto& [connection, link] : std::exchange(links_, {})) link->EndStreams(ShutDownError());
  for (auto& [id, peer] : std::exchange(peers_, {})) Wake(peer);
}

}  // namespace gdf::net
