// The simulated network: transports over one SimExecutor, with seeded delays, resets, partitions (one-way too), crashes,
// requests that come again, and members whose bytes are not what they should be.
// The same seed and the same calls give the same history.
//
//   SimNetwork network(executor, seed);
//   std::unique_ptr<SimTransport> a = network.Join(id_a);   // destroying it is the crash of that process
//   network.set_on_message([&](const SimMessage& m) { if (m.number == 17) crash = true; });
#ifndef GDF_TESTS_SIM_SIM_NETWORK_H_
#define GDF_TESTS_SIM_SIM_NETWORK_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "core/base/executor.h"
#include "core/base/rng.h"
#include "core/net/method_table.h"
#include "core/net/transport.h"

namespace gdf::sim {

struct NetworkOptions {
  absl::Duration min_delay = absl::Milliseconds(5);
  absl::Duration max_delay = absl::Milliseconds(60);
  double bytes_per_sec = 50e6;
  absl::Duration dial_timeout = absl::Seconds(10);  // to a node behind a cut
  absl::Duration keepalive = absl::Seconds(25);     // until a cut link is given up
};

// A message of a stream or call that is about to be delivered. Opening, ending and window frames are not counted.
struct SimMessage {
  uint64_t number = 0;  // from 1, over the whole network
  NodeId from;
  NodeId to;
  std::string method;
  bool request = false;  // the first one of a stream that `from` opened
};

class SimTransport;

// Two ends, each with its streams; frames arrive in the order sent.
struct SimLink;

// Executor only. Outlives its transports.
class SimNetwork {
 public:
  SimNetwork(SimExecutor& executor, uint64_t seed, NetworkOptions options = {});

  // A node comes up; one transport of an id at a time. `executor`: its own view of the network's, which outlives the
  // network.
  std::unique_ptr<SimTransport> Join(NodeId id, Executor& executor);
  std::unique_ptr<SimTransport> Join(NodeId id) { return Join(id, executor_); }

  // Their least round trip is told as a local network's; messages take as long as before.
  void TellNear(const NodeId& a, const NodeId& b) {
    near_.insert({a, b});
    near_.insert({b, a});
  }

  // Nothing passes between the two until Heal. Frames wait, as TCP retransmits, until the link is given up.
  void Cut(NodeId a, NodeId b);
  // Nothing of `from` arrives at `to`: what goes the other way does, until the link is given up for want of answers.
  void CutOneWay(NodeId from, NodeId to);
  void Heal(NodeId a, NodeId b);
  // Breaks the connections between the two; what is under way is lost.
  void Reset(NodeId a, NodeId b);

  // Called before each message is delivered; may crash, cut or reset whatever it likes.
  void set_on_message(std::function<void(const SimMessage&)> hook) { on_message_ = std::move(hook); }
  uint64_t messages() const { return messages_; }
  // Called with what a message is about to bring, after set_on_message's; may change it as a hostile sender would.
  void set_tamper(std::function<void(const SimMessage&, Buffer&)> tamper) { tamper_ = std::move(tamper); }
  // Asked for each request: after how long it comes once more, the answer to that going nowhere; as one that was sent
  // before a link was given up, and arrives after the same one on another link.
  void set_repeat(std::function<std::optional<absl::Duration>(const SimMessage&)> repeat) {
    repeat_ = std::move(repeat);
  }

 private:
  friend class SimTransport;
  friend struct SimLink;

  absl::Duration Delay(size_t bytes);
  bool IsCut(const NodeId& from, const NodeId& to) const { return cuts_.count({from, to}) > 0; }
  bool Reachable(const NodeId& from, const NodeId& to) const;  // by a dial, or at least its refusal is heard
  std::vector<std::shared_ptr<SimLink>> LinksBetween(const NodeId& a, const NodeId& b) const;

  SimExecutor& executor_;
  SeededRng rng_;
  const NetworkOptions options_;
  std::set<std::pair<NodeId, NodeId>> near_;  // both ways
  std::map<NodeId, SimTransport*> up_;
  std::map<std::pair<NodeId, NodeId>, uint64_t> cuts_;  // from, to -> which cut
  uint64_t next_cut_ = 1;
  uint64_t messages_ = 0;
  std::function<void(const SimMessage&)> on_message_;
  std::function<void(const SimMessage&, Buffer&)> tamper_;
  std::function<std::optional<absl::Duration>(const SimMessage&)> repeat_;
};

class SimTransport final : public net::Transport {
 public:
  SimTransport(SimNetwork& network, NodeId self, Executor& executor);
  ~SimTransport() override;

  NodeId self() const override { return self_; }
  Executor& executor() override { return executor_; }
  net::Registration HandleStream(std::string method, StreamHandler handler, net::MethodOptions options) override;
  Task<absl::StatusOr<std::unique_ptr<net::Stream>>> Open(NodeId peer, std::string method, net::Priority priority,
                                                          absl::Duration timeout) override;
  Task<absl::Status> Reach(NodeId peer, absl::Duration timeout) override;
  void SetAddresses(NodeId, std::vector<std::string>) override {}
  void SetRelays(std::vector<NodeId>) override {}
  std::vector<NodeId> AnsweredInstead(NodeId) const override { return {}; }
  bool NobodyListens(NodeId peer) const override { return refused_.count(peer) > 0; }
  void SetAdmission(std::function<net::Admission(NodeId)> policy) override { policy_ = std::move(policy); }
  void RecheckAdmission() override;
  void Disconnect(NodeId peer, absl::Status why) override;
  bool Connected(NodeId peer) const override;
  std::vector<NodeId> Peers() const override;
  net::Registration WatchPeers(PeerWatcher watcher) override;
  net::TrafficCounters counters(NodeId peer) const override;
  net::TrafficCounters total_counters() const override;
  std::optional<net::PeerPath> path(NodeId) const override { return std::nullopt; }

  // Nothing leaves this node any more: between a crash and its effect.
  void Mute() { muted_ = true; }
  // Its process is stopped: what is sent to it waits in its kernel.
  void Freeze(bool frozen) { frozen_ = frozen; }

  // What this node holds for its peers: bytes that have not arrived, and bytes that came and were not read.
  size_t held_bytes() const;
  size_t open_streams() const;

 private:
  friend class SimNetwork;
  friend struct SimLink;
  using Watchers = std::map<uint64_t, PeerWatcher>;

  net::Admission Admit(const NodeId& peer) const { return policy_ ? policy_(peer) : net::Admission::kMember; }
  Task<absl::StatusOr<std::shared_ptr<SimLink>>> Link(NodeId peer, net::Priority priority, absl::Duration timeout);
  std::shared_ptr<SimLink> Find(const NodeId& peer, net::Priority priority) const;
  void Add(std::shared_ptr<SimLink> link);
  void Drop(const std::shared_ptr<SimLink>& link, const absl::Status& why);
  void Tell(NodeId peer, bool up, const absl::Status& why);

  SimNetwork& network_;
  const NodeId self_;
  Executor& executor_;
  bool muted_ = false;
  bool frozen_ = false;
  std::function<net::Admission(NodeId)> policy_;
  net::MethodTable methods_;
  std::vector<std::shared_ptr<SimLink>> links_;
  std::set<NodeId> refused_;  // when dialled last
  std::shared_ptr<Watchers> watchers_ = std::make_shared<Watchers>();
  uint64_t next_watcher_ = 1;
  std::map<NodeId, net::TrafficCounters> counters_;
};

}  // namespace gdf::sim

#endif  // GDF_TESTS_SIM_SIM_NETWORK_H_
