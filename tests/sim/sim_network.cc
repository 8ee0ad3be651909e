#include "tests/sim/sim_network.h"

#include <algorithm>
#include <deque>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace gdf::sim {
namespace {

constexpr size_t kWindowBytes = size_t{2} << 20;  // unread, of a stream
constexpr size_t kFrameBytes = 32;                // what a frame costs beside its payload
constexpr absl::Duration kRetransmit = absl::Milliseconds(200);

enum class FrameType { kOpen, kData, kWindow, kFinish, kReset, kGone };

struct Frame {
  FrameType type = FrameType::kData;
  uint64_t stream = 0;
  std::string method = {};          // kOpen
  Buffer payload = {};              // kData
  size_t credit = 0;                // kWindow
  absl::Status status = {};         // kReset, kGone
};

// One end of a stream; as the real transport's, core/net/link.h.
struct Side {
  Side(Executor& e, std::shared_ptr<SimLink> l, int end_in, uint64_t id_in, std::string method_in)
      : executor(e), link(l), end(end_in), id(id_in), method(std::move(method_in)) {}
  Executor& executor;
  std::weak_ptr<SimLink> link;
  const int end;
  const uint64_t id;
  const std::string method;
  NodeId peer;
  size_t max_message_bytes = net::kMaxMessageBytes;
  std::deque<Buffer> inbox;
  bool unasked = false;  // accepted, and no message has come yet
  bool peer_finished = false;
  bool finished = false;
  absl::Status receive_end;
  absl::Status send_end;
  size_t send_window = kWindowBytes;
  std::optional<OneShot<bool>> receive_wake;
  std::optional<OneShot<bool>> send_wake;

  bool over() const { return (finished || !send_end.ok()) && (peer_finished || !receive_end.ok()); }
  void Wake() {
    if (receive_wake) receive_wake->Set(true);
    if (send_wake) send_wake->Set(true);
  }
  void End(const absl::Status& why) {
    if (send_end.ok()) send_end = why;
    if (!peer_finished && receive_end.ok()) {
      receive_end = why;
      inbox.clear();
    }
    Wake();
  }
};

}  // namespace

struct SimLink : std::enable_shared_from_this<SimLink> {
  struct Queued {
    absl::Duration due;
    Frame frame;
  };
  SimLink(SimNetwork& n, SimTransport& dialler, SimTransport& listener, net::Priority p)
      : network(n), priority(p), at{&dialler, &listener}, id{dialler.self(), listener.self()} {}

  void Send(int from, Frame frame) {
    if (broken || at[from] == nullptr || at[from]->muted_) return;
    const size_t bytes = kFrameBytes + frame.payload.size();
    at[from]->counters_[id[1 - from]].bytes_sent += bytes;
    const absl::Duration now = network.executor_.Monotonic();
    std::deque<Queued>& queue = under_way[from];
    const absl::Duration earliest = queue.empty() ? now : queue.back().due;
    queue.push_back({std::max(earliest, now + network.Delay(bytes)), std::move(frame)});
    if (queue.size() == 1) Pump(from, queue.front().due - now);
  }

  void Pump(int from, absl::Duration after) {
    network.executor_.PostAfter(after, [self = shared_from_this(), from] {
      std::deque<Queued>& queue = self->under_way[from];
      if (self->broken || queue.empty()) return;
      const SimTransport* const receiver = self->at[1 - from];
      if (self->network.IsCut(self->id[from], self->id[1 - from]) || (receiver != nullptr && receiver->frozen_)) {
        self->Pump(from, kRetransmit);
        return;
      }
      Frame frame = std::move(queue.front().frame);
      queue.pop_front();
      const absl::Duration now = self->network.executor_.Monotonic();
      if (!queue.empty()) self->Pump(from, std::max(absl::ZeroDuration(), queue.front().due - now));
      self->Announce(from, frame);
      self->Deliver(1 - from, std::move(frame));
    });
  }

  void Announce(int from, Frame& frame) {
    if (frame.type != FrameType::kData) return;
    SimMessage message{++network.messages_, id[from], id[1 - from], "", false};
    if (const auto it = sides[1 - from].find(frame.stream); it != sides[1 - from].end()) {
      message.method = it->second->method;
      message.request = std::exchange(it->second->unasked, false);
    }
    if (network.on_message_) network.on_message_(message);
    if (network.tamper_) network.tamper_(message, frame.payload);
    if (!network.repeat_ || !message.request) return;
    if (const std::optional<absl::Duration> after = network.repeat_(message)) {
      network.executor_.PostAfter(*after, [self = shared_from_this(), end = 1 - from, message, payload = frame.payload] {
        self->Repeat(end, message, payload);
      });
    }
  }

  void Repeat(int end, const SimMessage& message, Buffer payload);

  void Deliver(int end, Frame frame) {
    SimTransport* transport = at[end];
    if (broken || transport == nullptr) return;
    if (frame.type == FrameType::kGone) {
      transport->Drop(shared_from_this(), frame.status);
      return;
    }
    transport->counters_[id[1 - end]].bytes_received += kFrameBytes + frame.payload.size();
    if (frame.type == FrameType::kOpen) {
      Accept(end, frame);
      return;
    }
    const auto it = sides[end].find(frame.stream);
    if (it == sides[end].end()) return;  // it ended here; the peer does not know yet
    const std::shared_ptr<Side> side = it->second;
    switch (frame.type) {
      case FrameType::kData:
        if (frame.payload.size() > side->max_message_bytes) {
          const absl::Status why = absl::InvalidArgumentError("the message is larger than this method takes");
          Send(end, {.type = FrameType::kReset, .stream = side->id, .status = why});
          side->End(why);
          break;
        }
        side->inbox.push_back(std::move(frame.payload));
        if (side->receive_wake) side->receive_wake->Set(true);
        break;
      case FrameType::kWindow:
        side->send_window += frame.credit;
        if (side->send_wake) side->send_wake->Set(true);
        break;
      case FrameType::kFinish:
        side->peer_finished = true;
        if (side->receive_wake) side->receive_wake->Set(true);
        break;
      default:
        side->End(frame.status);
    }
    if (side->over()) sides[end].erase(side->id);
  }

  void Accept(int end, const Frame& open);

  std::shared_ptr<Side> AddSide(int end, uint64_t stream, std::string method) {
    auto side = std::make_shared<Side>(at[end]->executor_, shared_from_this(), end, stream, std::move(method));
    side->peer = id[1 - end];
    sides[end].emplace(stream, side);
    return side;
  }

  // At one end only; the other end learns of it, or not, by other ways.
  void EndAt(int end, const absl::Status& why) {
    at[end] = nullptr;
    for (const auto& [stream, side] : std::exchange(sides[end], {})) side->End(why);
  }

  SimNetwork& network;
  const net::Priority priority;
  SimTransport* at[2];  // null once that end is gone
  const NodeId id[2];
  bool broken = false;  // nothing is delivered any more
  std::deque<Queued> under_way[2];  // by sender
  std::map<uint64_t, std::shared_ptr<Side>> sides[2];
  uint64_t next_stream = 1;
};

namespace {

class SimStream final : public net::Stream {
 public:
  explicit SimStream(std::shared_ptr<Side> side) : side_(std::move(side)) {}
  ~SimStream() override { Cancel(absl::CancelledError("the stream's owner has gone")); }
  NodeId peer() const override { return side_->peer; }
  Task<absl::Status> Send(Buffer message) override { return SendOn(side_, std::move(message)); }
  Task<absl::StatusOr<std::optional<Buffer>>> Receive(absl::Duration timeout) override {
    return ReceiveOn(side_, timeout);
  }

  void Finish() override {
    if (side_->finished || !side_->send_end.ok()) return;
    side_->finished = true;
    if (const std::shared_ptr<SimLink> link = side_->link.lock()) {
      link->Send(side_->end, {.type = FrameType::kFinish, .stream = side_->id});
      if (side_->over()) link->sides[side_->end].erase(side_->id);
    }
  }

  void Cancel(absl::Status why) override {
    side_->inbox.clear();
    if (side_->over()) return;
    if (why.ok()) why = absl::CancelledError("the stream was cancelled");
    if (const std::shared_ptr<SimLink> link = side_->link.lock()) {
      link->Send(side_->end, {.type = FrameType::kReset, .stream = side_->id, .status = why});
      link->sides[side_->end].erase(side_->id);
    }
    side_->receive_end = why;
    side_->send_end = why;
    side_->Wake();
  }

 private:
  static Task<absl::Status> SendOn(std::shared_ptr<Side> side, Buffer message) {
    if (message.size() > net::kMaxMessageBytes) co_return absl::InvalidArgumentError("the message is too large");
    if (side->finished) co_return absl::FailedPreconditionError("Send after Finish");
    while (side->send_end.ok() && side->send_window < message.size()) {
      OneShot<bool> wake(side->executor);
      side->send_wake = wake;
      co_await wake.Wait();
      side->send_wake.reset();
    }
    if (!side->send_end.ok()) co_return side->send_end;
    side->send_window -= message.size();
    if (const std::shared_ptr<SimLink> link = side->link.lock()) {
      link->Send(side->end, {.type = FrameType::kData, .stream = side->id, .payload = std::move(message)});
    }
    co_return absl::OkStatus();
  }

  static Task<absl::StatusOr<std::optional<Buffer>>> ReceiveOn(std::shared_ptr<Side> side, absl::Duration timeout) {
    if (side->inbox.empty() && !side->peer_finished && side->receive_end.ok()) {
      OneShot<bool> wake(side->executor);
      if (timeout != absl::InfiniteDuration()) wake.SetAfter(timeout, false);
      side->receive_wake = wake;
      co_await wake.Wait();
      side->receive_wake.reset();
    }
    if (!side->receive_end.ok()) co_return side->receive_end;
    if (!side->inbox.empty()) {
      Buffer message = std::move(side->inbox.front());
      side->inbox.pop_front();
      const std::shared_ptr<SimLink> link = side->link.lock();
      if (link && !side->peer_finished) {
        link->Send(side->end, {.type = FrameType::kWindow, .stream = side->id, .credit = message.size()});
      }
      co_return std::optional<Buffer>(std::move(message));
    }
    if (side->peer_finished) co_return std::optional<Buffer>();
    co_return absl::DeadlineExceededError(absl::StrCat("nothing received from node ", side->peer.Short(), " within ",
                                                       absl::FormatDuration(timeout)));
  }

  const std::shared_ptr<Side> side_;
};

}  // namespace

void SimLink::Accept(int end, const Frame& open) {
  SimTransport& transport = *at[end];
  const absl::StatusOr<net::MethodOptions> options =
      transport.methods_.Check(open.method, id[1 - end], transport.Admit(id[1 - end]));
  if (!options.ok()) {
    Send(end, {.type = FrameType::kReset, .stream = open.stream, .status = options.status()});
    return;
  }
  std::shared_ptr<Side> side = AddSide(end, open.stream, open.method);
  side->unasked = true;
  side->max_message_bytes = options->max_message_bytes;
  transport.methods_.Run(open.method, id[1 - end], std::make_unique<SimStream>(std::move(side)));
}

void SimLink::Repeat(int end, const SimMessage& message, Buffer payload) {
  SimTransport* const transport = at[end];
  if (transport == nullptr || !transport->methods_.Check(message.method, message.from, net::Admission::kMember).ok()) return;
  auto side = std::make_shared<Side>(transport->executor_, nullptr, end, 0, message.method);
  side->peer = message.from;
  side->inbox.push_back(std::move(payload));
  side->peer_finished = true;
  transport->methods_.Run(message.method, message.from, std::make_unique<SimStream>(std::move(side)));
}

// --- The network ---

SimNetwork::SimNetwork(SimExecutor& executor, uint64_t seed, NetworkOptions options)
    : executor_(executor), rng_(MixSeed(seed, 0x6e6574)), options_(options) {}

std::unique_ptr<SimTransport> SimNetwork::Join(NodeId id, Executor& executor) {
  GDF_CHECK(up_.count(id) == 0);
  auto transport = std::make_unique<SimTransport>(*this, id, executor);
  up_[id] = transport.get();
  return transport;
}

absl::Duration SimNetwork::Delay(size_t bytes) {
  return options_.min_delay + (options_.max_delay - options_.min_delay) * rng_.Unit() +
         absl::Seconds(static_cast<double>(bytes) / options_.bytes_per_sec);
}

std::vector<std::shared_ptr<SimLink>> SimNetwork::LinksBetween(const NodeId& a, const NodeId& b) const {
  std::vector<std::shared_ptr<SimLink>> links;
  for (const auto& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
    const auto it = up_.find(from);
    if (it == up_.end()) continue;
    for (const std::shared_ptr<SimLink>& link : it->second->links_) {
      const bool between = (link->id[0] == from && link->id[1] == to) || (link->id[0] == to && link->id[1] == from);
      if (between && std::find(links.begin(), links.end(), link) == links.end()) links.push_back(link);
    }
  }
  return links;
}

bool SimNetwork::Reachable(const NodeId& from, const NodeId& to) const {
  const auto there = up_.find(to);
  return !IsCut(from, to) && !IsCut(to, from) && (there == up_.end() || !there->second->frozen_);
}

void SimNetwork::Cut(NodeId a, NodeId b) {
  CutOneWay(a, b);
  CutOneWay(b, a);
}

void SimNetwork::CutOneWay(NodeId from, NodeId to) {
  const uint64_t cut = next_cut_++;
  if (!cuts_.emplace(std::pair(from, to), cut).second) return;
  executor_.PostAfter(options_.keepalive, [this, from, to, cut] {
    const auto it = cuts_.find({from, to});
    if (it != cuts_.end() && it->second == cut) Reset(from, to);
  });
}

void SimNetwork::Heal(NodeId a, NodeId b) {
  cuts_.erase({a, b});
  cuts_.erase({b, a});
}

void SimNetwork::Reset(NodeId a, NodeId b) {
  for (const std::shared_ptr<SimLink>& link : LinksBetween(a, b)) {
    link->broken = true;
    for (SimTransport* transport : {link->at[0], link->at[1]}) {
      if (transport == nullptr) continue;
      const NodeId peer = transport->self() == a ? b : a;
      transport->Drop(link, absl::UnavailableError(absl::StrCat("the connection to node ", peer.Short(), " was reset")));
    }
  }
}

// --- One node's transport ---

SimTransport::SimTransport(SimNetwork& network, NodeId self, Executor& executor)
    : network_(network), self_(self), executor_(executor), methods_(executor) {}

SimTransport::~SimTransport() {
  network_.up_.erase(self_);
  methods_.Clear();
  const absl::Status gone = absl::UnavailableError(absl::StrCat("node ", self_.Short(), " closed the connection"));
  for (const std::shared_ptr<SimLink>& link : std::exchange(links_, {})) {
    const int end = link->at[0] == this ? 0 : 1;
    muted_ = false;  // the kernel says that the process is no more
    link->Send(end, {.type = FrameType::kGone, .status = gone});
    link->EndAt(end, absl::CancelledError("this node has stopped"));
  }
}

net::Registration SimTransport::HandleStream(std::string method, StreamHandler handler, net::MethodOptions options) {
  return methods_.Add(std::move(method), std::move(handler), options);
}

std::shared_ptr<SimLink> SimTransport::Find(const NodeId& peer, net::Priority priority) const {
  for (auto it = links_.rbegin(); it != links_.rend(); ++it) {
    const NodeId& other = (*it)->at[0] == this ? (*it)->id[1] : (*it)->id[0];
    if (other == peer && (*it)->priority == priority) return *it;
  }
  return nullptr;
}

Task<absl::StatusOr<std::shared_ptr<SimLink>>> SimTransport::Link(NodeId peer, net::Priority priority,
                                                                  absl::Duration timeout) {
  std::shared_ptr<SimLink> link = Find(peer, priority);
  if (!link) {
    const absl::Duration dial = network_.Reachable(self_, peer) ? 3 * network_.Delay(0) : network_.options_.dial_timeout;
    co_await Sleep(executor_, std::min(dial, timeout));
    if (dial > timeout) co_return absl::DeadlineExceededError(absl::StrCat("node ", peer.Short(), " was not reached"));
    link = Find(peer, priority);  // it may have dialled meanwhile
  }
  if (!link) {
    const auto there = network_.up_.find(peer);
    if (there == network_.up_.end() && network_.Reachable(self_, peer)) refused_.insert(peer);
    if (there == network_.up_.end() || !network_.Reachable(self_, peer)) {
      co_return absl::UnavailableError(absl::StrCat("node ", peer.Short(), " is not reachable"));
    }
    if (there->second->Admit(self_) == net::Admission::kRefused || Admit(peer) == net::Admission::kRefused) {
      co_return absl::PermissionDeniedError(absl::StrCat("node ", peer.Short(), " is refused"));
    }
    link = std::make_shared<SimLink>(network_, *this, *there->second, priority);
    there->second->Add(link);
    Add(link);
  }
  co_return link;
}

Task<absl::Status> SimTransport::Reach(NodeId peer, absl::Duration timeout) {
  const absl::StatusOr<std::shared_ptr<SimLink>> link = co_await Link(peer, net::Priority::kControl, timeout);
  co_return link.status();
}

Task<absl::StatusOr<std::unique_ptr<net::Stream>>> SimTransport::Open(NodeId peer, std::string method,
                                                                      net::Priority priority, absl::Duration timeout) {
  absl::StatusOr<std::shared_ptr<SimLink>> found = co_await Link(peer, priority, timeout);
  if (!found.ok()) co_return found.status();
  const std::shared_ptr<SimLink>& link = *found;
  const int end = link->at[0] == this ? 0 : 1;
  const uint64_t stream = link->next_stream++;
  std::shared_ptr<Side> side = link->AddSide(end, stream, method);
  link->Send(end, {.type = FrameType::kOpen, .stream = stream, .method = std::move(method)});
  std::unique_ptr<net::Stream> opened = std::make_unique<SimStream>(std::move(side));
  co_return opened;
}

void SimTransport::Add(std::shared_ptr<SimLink> link) {
  const NodeId peer = link->at[0] == this ? link->id[1] : link->id[0];
  const bool first = !Connected(peer);
  refused_.erase(peer);
  links_.push_back(std::move(link));
  if (first) Tell(peer, true, absl::OkStatus());
}

void SimTransport::Drop(const std::shared_ptr<SimLink>& link, const absl::Status& why) {
  const int end = link->at[0] == this ? 0 : 1;
  const NodeId peer = link->id[1 - end];
  std::erase(links_, link);
  link->EndAt(end, why);
  if (!Connected(peer)) Tell(peer, false, why);
}

void SimTransport::Tell(NodeId peer, bool up, const absl::Status& why) {
  const Watchers watchers = *watchers_;
  for (const auto& [id, watcher] : watchers) {
    if (watchers_->count(id) > 0) watcher(peer, up, why);
  }
}

size_t SimTransport::held_bytes() const {
  size_t bytes = 0;
  for (const std::shared_ptr<SimLink>& link : links_) {
    const int end = link->at[0] == this ? 0 : 1;
    for (const SimLink::Queued& queued : link->under_way[end]) bytes += queued.frame.payload.size();
    for (const auto& [stream, side] : link->sides[end]) {
      for (const Buffer& message : side->inbox) bytes += message.size();
    }
  }
  return bytes;
}

size_t SimTransport::open_streams() const {
  size_t streams = 0;
  for (const std::shared_ptr<SimLink>& link : links_) streams += link->sides[link->at[0] == this ? 0 : 1].size();
  return streams;
}

void SimTransport::RecheckAdmission() {
  for (const NodeId& peer : Peers()) {
    if (Admit(peer) == net::Admission::kRefused) Disconnect(peer, absl::PermissionDeniedError("no longer admitted"));
  }
}

void SimTransport::Disconnect(NodeId peer, absl::Status why) {
  if (why.ok()) why = absl::UnavailableError("disconnected");
  for (const std::shared_ptr<SimLink>& link : network_.LinksBetween(self_, peer)) {
    if (std::find(links_.begin(), links_.end(), link) == links_.end()) continue;
    link->Send(link->at[0] == this ? 0 : 1, {.type = FrameType::kGone, .status = why});
    Drop(link, why);
  }
}

bool SimTransport::Connected(NodeId peer) const {
  return Find(peer, net::Priority::kControl) != nullptr || Find(peer, net::Priority::kBulk) != nullptr;
}

std::vector<NodeId> SimTransport::Peers() const {
  std::set<NodeId> peers;
  for (const std::shared_ptr<SimLink>& link : links_) peers.insert(link->at[0] == this ? link->id[1] : link->id[0]);
  return {peers.begin(), peers.end()};
}

net::Registration SimTransport::WatchPeers(PeerWatcher watcher) {
  const uint64_t id = next_watcher_++;
  watchers_->emplace(id, std::move(watcher));
  return net::Registration([weak = std::weak_ptr(watchers_), id] {
    if (const std::shared_ptr<Watchers> watchers = weak.lock()) watchers->erase(id);
  });
}

net::TrafficCounters SimTransport::counters(NodeId peer) const {
  const auto it = counters_.find(peer);
  net::TrafficCounters out = it == counters_.end() ? net::TrafficCounters{} : it->second;
  if (Connected(peer)) {
    out.rtt = network_.options_.min_delay + network_.options_.max_delay;
    out.min_rtt = network_.near_.count({self_, peer}) > 0 ? absl::Milliseconds(1) : out.rtt;
  }
  return out;
}

net::TrafficCounters SimTransport::total_counters() const {
  net::TrafficCounters total;
  for (const auto& [peer, counters] : counters_) {
    total.bytes_sent += counters.bytes_sent;
    total.bytes_received += counters.bytes_received;
  }
  return total;
}

}  // namespace gdf::sim
