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
#include "core/membership/presence.h"
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
  void LeaderChanged() { Wake(); }
  // It has heard no leader for long: what it knows grows old, and it serves no watches.
  bool stranded() const;
  // This node and the members connected with it, in order of their ids.
  const std::vector<NodeId>& Online() const { return presence_.online(); }
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
    Channel<bool> wake;  // true: something may be new; false: the stream was cancelled
  };
  // What a watcher has been told.
  struct Told {
    uint64_t next = 1;                 // entry
    std::optional<uint64_t> presence;  // version of it
    std::optional<NodeId> leader;
    bool operator==(const Told&) const = default;
  };
  // One and the same update for all who were told the same.
  struct Update {
    Told before, after;
    uint64_t tip = 0;  // of the log, when it was made
    Buffer bytes;
  };
  Task<absl::StatusOr<Buffer>> ServeJoin(NodeId peer, Buffer request);
  Task<absl::StatusOr<Buffer>> ServePropose(NodeId peer, Buffer request);
  Task<void> ServeWatch(NodeId peer, std::unique_ptr<net::Stream> stream);
  absl::Status CheckNotAhead(const NodeId& peer, uint64_t from_index);
  Task<void> EndWatchesWhenStranded();
  Task<absl::Status> StreamLog(net::Stream& stream, Watcher& watcher, uint64_t next);
  bool PresenceIsNews(const Told& told) const;
  // Makes update_ the one that follows `told`, of which something is new.
  absl::Status MakeUpdate(const Told& told);
  // Has watchers told what is new, at once or with what comes soon.
  void TellSoon();
  Task<void> TellAfter(absl::Duration delay);
  void TellNow();
  Task<void> RecheckPresence();
  void Wake();
  // Ends the oldest watches of `peer` but so many that one more is as many as it may have.
  void MakeRoom(const NodeId& peer);

  net::Transport& transport_;
  state::State& state_;
  consensus::Replica& replica_;
  std::map<NodeId, Allowance> allowances_;  // of members that have proposed
  std::list<Watcher> watchers_;
  Presence presence_;
  uint64_t members_since_ = 0;  // of the state, when presence_ looked at everybody
  uint64_t announced_ = 0;      // version of presence_ that all are to be told of
  absl::Duration tell_from_;    // not earlier
  bool telling_ = false;        // TellAfter goes on
  Update update_;               // the last one
  std::map<NodeId, Ahead> ahead_;
  state::State::WatcherId state_watcher_;
  TaskScope tasks_;
  std::vector<net::Registration> registrations_;  // last: its handlers go first
};

}  // namespace gdf::membership

#endif  // GDF_CORE_MEMBERSHIP_COORDINATOR_H_
