// A coordinator's services to members and joiners: has their commands recorded, if it leads, streams
// the command log and says who is online. Methods: membership.join (open to strangers, who show an
// invite's secret), membership.propose, membership.watch.
#ifndef GDF_CORE_MEMBERSHIP_COORDINATOR_H_
#define GDF_CORE_MEMBERSHIP_COORDINATOR_H_

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/task.h"
#include "core/consensus/replica.h"
#include "core/membership/allowance.h"
#include "core/net/transport.h"
#include "core/state/state.h"

namespace gdf::membership {

// On the executor.
class Coordinator {
 public:
  // Serves at once. All outlive the coordinator.
  Coordinator(net::Transport& transport, state::State& state, consensus::Replica& replica);
  ~Coordinator();

  // Another one may lead, which members are told.
  void LeaderChanged() { Wake(true); }
  // It has heard no leader for long: what it knows grows old, and it serves no watches.
  bool stranded() const;
  // This node and the members connected with it, in order of their ids.
  std::vector<NodeId> Online() const;
  // A member that came with more entries than there were here, as one does when this coordinator
  // was restored from an older backup.
  struct Ahead {
    NodeId node;
    uint64_t entries = 0;  // as it says
    uint64_t here = 0;     // when it came first
  };
  // The one that knows most, of those that are members still and have not begun anew.
  std::optional<Ahead> FurthestAhead() const;

 private:
  struct Watcher {
    Watcher(Executor& executor, NodeId p, net::Stream& s) : peer(p), stream(s), wake(executor) {}
    const NodeId peer;
    net::Stream& stream;
    Channel<bool> wake;  // something changed: entries, or (true) who is online
  };
  Task<absl::StatusOr<Buffer>> ServeJoin(NodeId peer, Buffer request);
  Task<absl::StatusOr<Buffer>> ServePropose(NodeId peer, Buffer request);
  Task<void> ServeWatch(NodeId peer, std::unique_ptr<net::Stream> stream);
  absl::Status CheckNotAhead(const NodeId& peer, uint64_t from_index);
  Task<void> EndWatchesWhenStranded();
  Task<bool> WaitForNews(Watcher& watcher);
  Task<absl::Status> StreamLog(net::Stream& stream, Watcher& watcher, uint64_t next);
  // Whether somebody has come or gone since it was asked last.
  bool OnlineChanged();
  void Wake(bool presence);
  // Ends the oldest watches of `peer` but so many that one more is as many as it may have.
  void MakeRoom(const NodeId& peer);

  net::Transport& transport_;
  state::State& state_;
  consensus::Replica& replica_;
  std::map<NodeId, Allowance> allowances_;  // of members that have proposed
  std::list<Watcher> watchers_;
  std::vector<NodeId> online_;  // when OnlineChanged was asked last
  std::map<NodeId, Ahead> ahead_;
  state::State::WatcherId state_watcher_;
  TaskScope tasks_;
  std::vector<net::Registration> registrations_;  // last: its handlers go first
};

}  // namespace gdf::membership

#endif  // GDF_CORE_MEMBERSHIP_COORDINATOR_H_
