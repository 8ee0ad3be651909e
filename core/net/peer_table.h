// The executor's view of all peers: who is connected, over which links, who may do what, and when
// to dial.
#ifndef GDF_CORE_NET_PEER_TABLE_H_
#define GDF_CORE_NET_PEER_TABLE_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
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

  MethodTable& methods() { return methods_; }
  static Task<absl::StatusOr<std::unique_ptr<Stream>>> Open(std::shared_ptr<PeerTable> table,
                                                            NodeId peer, std::string method,
                                                            Priority priority,
                                                            absl::Duration timeout);
  static Task<absl::Status> Reach(std::shared_ptr<PeerTable> table, NodeId peer,
                                  absl::Duration timeout);
  void SetAddresses(const NodeId& peer, std::vector<std::string> addresses);
  void SetAdmission(std::function<Admission(NodeId)> policy) { policy_ = std::move(policy); }
  void RecheckAdmission();
  void Disconnect(const NodeId& peer, absl::Status why);
  bool Connected(const NodeId& peer) const;
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
    absl::Duration next_want;    // when the peer may be asked for a stripe again
    int failures = 0;            // dials of the main connection in a row
    absl::Duration next_dial;    // not before
    uint64_t failure_count = 0;  // ever, of both kinds
    absl::Status last_error;
    Findings found;                      // when it was dialled last, and has not connected since
    std::vector<OneShot<bool>> waiting;  // WaitForLink() calls, for any change
    TrafficCounters closed;
  };
  using Watchers = std::map<uint64_t, Transport::PeerWatcher>;

  absl::Duration Now() const { return world_->Now(); }
  Admission AdmissionOf(const NodeId& peer) const;
  const Peer* Find(const NodeId& peer) const;
  static int Stripes(const Peer& peer);
  LinkPtr Main(const Peer& peer) const;
  LinkPtr Pick(const NodeId& id, Priority priority);
  static Task<absl::StatusOr<LinkPtr>> WaitForLink(std::shared_ptr<PeerTable> table, NodeId peer,
                                                   Priority priority, absl::Duration timeout);
  // What WaitForLink() waits for. The longest time to wait before it asks again, or why there is nothing
  // to wait for.
  absl::StatusOr<absl::Duration> Connect(const NodeId& id, Priority priority);
  void WantStripe(const NodeId& id, Peer& peer);
  void Dial(const NodeId& id, Purpose purpose, std::vector<std::string> addresses);
  void OnDialled(const NodeId& id, Purpose purpose, absl::StatusOr<Dialled> result, Findings found);
  absl::Status MayJoin(const Connection& connection) const;
  absl::Status MayVisit(const Connection& connection) const;  // as one that is no member
  void AddLink(std::shared_ptr<Connection> connection, const Hello& hello, Purpose purpose);
  void DrainSpareMains(Peer& peer);
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
  std::map<NodeId, Peer> peers_;
  std::map<const Connection*, LinkPtr> links_;
  TrafficCounters forgotten_;  // of peers no longer in peers_
  std::shared_ptr<Watchers> watchers_ = std::make_shared<Watchers>();
  uint64_t next_watcher_ = 0;
  bool shut_down_ = false;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_PEER_TABLE_H_
