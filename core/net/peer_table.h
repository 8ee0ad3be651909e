// The executor's view of all peers: who is connected, over which links, who may do what, and when
// to dial.
#ifndef GDF_CORE_NET_PEER_TABLE_H_
#define GDF_CORE_NET_PEER_TABLE_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/net/connection.h"
#include "core/net/dialer.h"
#include "core/net/link.h"
#include "core/net/method_table.h"
#include "core/net/transport.h"

namespace gdf::net {

// On the executor only. Functions named as in Transport do what it says.
class PeerTable final : public ConnectionEvents, public std::enable_shared_from_this<PeerTable> {
 public:
  explicit PeerTable(std::shared_ptr<IoWorld> world);

  // Closes idle connections from now on.
  void StartTicking();
  // Ends everything; later calls find nobody connected.
  void Shutdown();
  // A connection that has said hello.
  void OnAccepted(std::shared_ptr<Connection> connection, const Hello& hello);
  void OnFrame(const std::shared_ptr<Connection>& connection, Frame frame) override;
  void OnClosed(const std::shared_ptr<Connection>& connection, const absl::Status& why) override;

  // Another way to a peer than to dial it: by way of one of `relays`, in this order. `done` on the executor.
  using DetourDone = std::function<void(absl::StatusOr<Dialled>)>;
  using Detour = std::function<void(NodeId peer, Purpose purpose, std::vector<NodeId> relays, DetourDone done)>;
  void SetDetour(Detour detour) { detour_ = std::move(detour); }
  // Takes accepted connections whose hello is of kCircuit.
  using CircuitSeat = std::function<void(const std::shared_ptr<Connection>&, const Hello&)>;
  void SetSeat(CircuitSeat seat) { seat_ = std::move(seat); }

  MethodTable& methods() { return methods_; }
  static Task<absl::StatusOr<std::unique_ptr<Stream>>> Open(std::shared_ptr<PeerTable> table,
                                                            NodeId peer, std::string method,
                                                            Priority priority,
                                                            absl::Duration timeout);
  static Task<absl::Status> Reach(std::shared_ptr<PeerTable> table, NodeId peer,
                                  absl::Duration timeout);
  void SetAddresses(const NodeId& peer, std::vector<std::string> addresses);
  void SetRelays(const std::vector<NodeId>& relays) { relays_ = {relays.begin(), relays.end()}; }
  bool IsRelay(const NodeId& peer) const { return relays_.contains(peer); }
  void SetAdmission(std::function<Admission(NodeId)> policy) { policy_ = std::move(policy); }
  Admission AdmissionOf(const NodeId& peer) const;
  void RecheckAdmission();
  void Disconnect(const NodeId& peer, absl::Status why);
  bool Connected(const NodeId& peer) const;
  bool ReachedDirectly(const NodeId& peer) const;
  // Where to dial `peer`: where it answers, or else as given to SetAddresses.
  std::vector<std::string> AddressesOf(const NodeId& peer) const;
  std::vector<NodeId> Connected() const;
  std::vector<NodeId> AnsweredInstead(const NodeId& peer) const;
  bool NobodyListens(const NodeId& peer) const;
  Registration Watch(Transport::PeerWatcher watcher);
  TrafficCounters counters(const NodeId& peer) const;
  TrafficCounters total_counters() const;
  std::optional<PeerPath> path(const NodeId& peer) const;
  size_t ConnectionCount(const NodeId& peer) const;

 private:
  using LinkPtr = std::shared_ptr<Link>;
  struct Peer {
    std::vector<std::string> addresses;
    Admission admission = Admission::kStranger;
    std::vector<LinkPtr> links;  // oldest first
    bool dialling_main = false;
    bool dialling_stripe = false;
    bool detouring = false;      // to a main connection
    bool detoured = false;       // since the last dial of the main connection
    absl::Duration next_want;    // when the peer may be asked for a stripe again
    int failures = 0;            // dials of the main connection in a row
    absl::Duration next_dial;    // not before
    int direct_tries = 0;        // while it is reached by a relay
    absl::Duration next_direct;  // not before
    std::optional<uint64_t> displaced;  // the incarnation before the one that is connected now
    absl::Status direct_error;   // of the last dial of the main connection
    uint64_t failure_count = 0;  // ever, of both kinds
    absl::Status last_error;
    Findings found;                      // when it was dialled last, and has not connected since
    std::vector<OneShot<bool>> waiting;  // WaitForLink() calls, for any change
    TrafficCounters closed;
  };
  using Watchers = std::map<uint64_t, Transport::PeerWatcher>;

  absl::Duration Now() const { return world_->Now(); }
  static absl::Status ShutDownError();
  const Peer* Find(const NodeId& peer) const;
  static int Stripes(const Peer& peer);
  LinkPtr Main(const Peer& peer) const;

  // peer_dialling.cc
  LinkPtr Pick(const NodeId& id, Priority priority);
  static Task<absl::StatusOr<LinkPtr>> WaitForLink(std::shared_ptr<PeerTable> table, NodeId peer,
                                                   Priority priority, absl::Duration timeout);
  // What WaitForLink() waits for. The longest time to wait before it asks again, or why there is nothing
  // to wait for.
  absl::StatusOr<absl::Duration> Connect(const NodeId& id, Priority priority);
  void WantStripe(const NodeId& id, Peer& peer);
  void Dial(const NodeId& id, Purpose purpose, std::vector<std::string> addresses);
  void OnDialled(const NodeId& id, Purpose purpose, absl::StatusOr<Dialled> result, Findings found);
  // Of a dial or a detour.
  absl::Status AddDialled(absl::StatusOr<Dialled> result, Purpose purpose);
  void OnStripe(const NodeId& id, absl::StatusOr<Dialled> result);
  bool MayDetour(const NodeId& id) const;
  std::vector<NodeId> RelaysFor(const NodeId& id) const;
  void DetourWhenSlow(const NodeId& id);
  void DetourToMain(const NodeId& id);
  // Once neither a dial nor a detour to the main connection goes on, and none has come up.
  void MainFailed(const NodeId& id, absl::Status why);
  void TryDirectly(const NodeId& id, Peer& peer);

  // peer_table.cc
  absl::Status MayJoin(const Connection& connection) const;
  absl::Status MayVisit(const Connection& connection) const;  // as one that is no member
  void AddLink(std::shared_ptr<Connection> connection, const Hello& hello, Purpose purpose);
  // Why a connection of the peer's incarnation `old` ends when one of `by` comes up. A process that comes back after
  // another had taken its place was never gone.
  absl::Status Displaced(const NodeId& id, uint64_t old, uint64_t by);
  void DrainSpares(Peer& peer);
  void CloseIfDrained(Link& link);
  void OnOpen(const LinkPtr& link, const Frame& frame);
  // Takes the link out of the table; its connection is closed or closes by itself.
  void RemoveLink(const std::shared_ptr<Connection>& connection, const absl::Status& why);
  void ForgetIfUnknown(const NodeId& id);
  void Wake(Peer& peer);
  void Notify(const NodeId& peer, bool up, const absl::Status& why);
  void Tick();

  const std::shared_ptr<IoWorld> world_;
  Executor& executor_;
  MethodTable methods_;
  std::function<Admission(NodeId)> policy_;
  std::set<NodeId> relays_;
  Detour detour_;
  CircuitSeat seat_;
  std::map<NodeId, Peer> peers_;
  std::map<const Connection*, LinkPtr> links_;
  TrafficCounters forgotten_;  // of peers no longer in peers_
  std::shared_ptr<Watchers> watchers_ = std::make_shared<Watchers>();
  uint64_t next_watcher_ = 0;
  bool shut_down_ = false;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_PEER_TABLE_H_
