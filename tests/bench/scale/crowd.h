// A transport at one node whose peers are no programs: what is sent to them is counted and gone, what they send is given to
// this node's handlers. So a coordinator runs as it is with ten thousand members, without their memory and work.
#ifndef GDF_TESTS_BENCH_SCALE_CROWD_H_
#define GDF_TESTS_BENCH_SCALE_CROWD_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/net/method_table.h"
#include "core/net/transport.h"

namespace gdf::scale {

struct Traffic {
  uint64_t messages_sent = 0, bytes_sent = 0;
  uint64_t messages_received = 0, bytes_received = 0;
};

// On the executor. Time that messages take: none.
class Crowd final : public net::Transport {
 public:
  Crowd(Executor& executor, NodeId self) : executor_(executor), self_(self), methods_(executor) {}
  ~Crowd() override { methods_.Clear(); }

  // A peer comes, or goes with its streams.
  void Connect(NodeId peer);
  void Leave(NodeId peer);
  // The peer opens a stream with this first message. `heard`, which may be empty, is called with what this node sends on it.
  void Send(NodeId peer, std::string method, Buffer message, std::function<void(const Buffer&)> heard);
  const Traffic& traffic() const { return traffic_; }

  NodeId self() const override { return self_; }
  Executor& executor() override { return executor_; }
  net::Registration HandleStream(std::string method, StreamHandler handler, net::MethodOptions options) override {
    return methods_.Add(std::move(method), std::move(handler), options);
  }
  // This node has nothing to ask of the crowd.
  Task<absl::StatusOr<std::unique_ptr<net::Stream>>> Open(NodeId, std::string, net::Priority, absl::Duration) override {
    co_return absl::UnavailableError("a node of a crowd answers nothing");
  }
  Task<absl::Status> Reach(NodeId peer, absl::Duration) override {
    co_return Connected(peer) ? absl::OkStatus() : absl::UnavailableError("not connected");
  }
  void SetAddresses(NodeId peer, std::vector<std::string> addresses) override { addresses_[peer] = std::move(addresses); }
  void SetRelays(std::vector<NodeId>) override {}
  std::vector<NodeId> AnsweredInstead(NodeId) const override { return {}; }
  bool NobodyListens(NodeId) const override { return false; }
  void SetAdmission(std::function<net::Admission(NodeId)> policy) override { policy_ = std::move(policy); }
  void RecheckAdmission() override {
    for (const NodeId& peer : peers_) (void)policy_(peer);
  }
  void Disconnect(NodeId peer, absl::Status) override { Leave(peer); }
  bool Connected(NodeId peer) const override { return peers_.contains(peer); }
  std::vector<NodeId> Peers() const override { return {peers_.begin(), peers_.end()}; }
  net::Registration WatchPeers(PeerWatcher watcher) override;
  net::TrafficCounters counters(NodeId) const override { return {}; }
  net::TrafficCounters total_counters() const override { return {}; }
  std::optional<net::PeerPath> path(NodeId) const override { return std::nullopt; }

 private:
  class PeerStream;
  void Tell(NodeId peer, bool up);

  Executor& executor_;
  const NodeId self_;
  net::MethodTable methods_;
  Traffic traffic_;
  std::set<NodeId> peers_;
  std::map<NodeId, std::vector<std::string>> addresses_;
  std::multimap<NodeId, PeerStream*> streams_;
  std::function<net::Admission(NodeId)> policy_;
  std::map<uint64_t, PeerWatcher> watchers_;
  uint64_t next_watcher_ = 1;
};

}  // namespace gdf::scale

#endif  // GDF_TESTS_BENCH_SCALE_CROWD_H_
