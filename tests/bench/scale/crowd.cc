#include "tests/bench/scale/crowd.h"

#include <utility>

#include "core/base/check.h"

namespace gdf::scale {

// At this node's end.
class Crowd::PeerStream final : public net::Stream {
 public:
  PeerStream(Crowd& crowd, NodeId peer, Buffer first, std::function<void(const Buffer&)> heard)
      : crowd_(crowd), peer_(peer), first_(std::move(first)), heard_(std::move(heard)), end_(crowd.executor_) {
    listed_ = crowd_.streams_.emplace(peer_, this);
  }
  ~PeerStream() override { crowd_.streams_.erase(listed_); }

  NodeId peer() const override { return peer_; }
  Task<absl::Status> Send(Buffer message) override {
    if (end_.done()) co_return absl::CancelledError("the stream has ended");
    ++crowd_.traffic_.messages_sent;
    crowd_.traffic_.bytes_sent += message.size();
    if (heard_) heard_(message);
    co_return absl::OkStatus();
  }
  Task<absl::StatusOr<std::optional<Buffer>>> Receive(absl::Duration) override {
    if (std::optional<Buffer> message = std::exchange(first_, std::nullopt)) co_return message;
    co_return co_await end_.Wait();
  }
  void Finish() override {}
  void Cancel(absl::Status why) override { end_.Set(std::move(why)); }

 private:
  Crowd& crowd_;
  const NodeId peer_;
  std::optional<Buffer> first_;
  const std::function<void(const Buffer&)> heard_;
  const OneShot<absl::Status> end_;
  std::multimap<NodeId, PeerStream*>::iterator listed_;
};

void Crowd::Connect(NodeId peer) {
  if (peers_.insert(peer).second) Tell(peer, true);
}

void Crowd::Leave(NodeId peer) {
  if (peers_.erase(peer) == 0) return;
  const auto [begin, end] = streams_.equal_range(peer);
  for (auto it = begin; it != end; ++it) it->second->Cancel(absl::UnavailableError("the peer is gone"));
  Tell(peer, false);
}

void Crowd::Send(NodeId peer, std::string method, Buffer message, std::function<void(const Buffer&)> heard) {
  ++traffic_.messages_received;
  traffic_.bytes_received += message.size();
  const absl::StatusOr<net::MethodOptions> allowed = methods_.Check(method, peer, policy_(peer));
  GDF_CHECK(allowed.ok());
  methods_.Run(method, peer, std::make_unique<PeerStream>(*this, peer, std::move(message), std::move(heard)));
}

net::Registration Crowd::WatchPeers(PeerWatcher watcher) {
  const uint64_t id = next_watcher_++;
  watchers_[id] = std::move(watcher);
  return net::Registration([this, id] { watchers_.erase(id); });
}

void Crowd::Tell(NodeId peer, bool up) {
  const absl::Status why = up ? absl::OkStatus() : absl::UnavailableError("the connection was reset");
  for (const auto& [id, watcher] : watchers_) watcher(peer, up, why);
}

}  // namespace gdf::scale
