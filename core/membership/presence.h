// Who is online, as a coordinator sees it, and what has changed of that lately, so that members are told of a change alone and
// not of everybody.
#ifndef GDF_CORE_MEMBERSHIP_PRESENCE_H_
#define GDF_CORE_MEMBERSHIP_PRESENCE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "core/net/transport.h"
#include "core/state/state.h"
#include "core/wire/membership_messages.h"

namespace gdf::membership {

// On the executor.
class Presence {
 public:
  // Both outlive it. Everybody who is there now is.
  Presence(const net::Transport& transport, state::State& state);

  // This node and the members connected with it, in order of their ids.
  const std::vector<NodeId>& online() const { return online_; }
  // How many changes there were.
  uint64_t version() const { return version_; }

  void PeerChanged(const NodeId& peer, bool up);
  // Looks at everybody: other nodes are members now, or a peer's change was not told.
  void Recheck();

  // Puts into `update` what is new since version `told`: everybody for none, or for one of long ago.
  void Tell(std::optional<uint64_t> told, wire::WatchUpdate& update) const;

 private:
  bool IsMember(const NodeId& peer) const;
  void Note(const NodeId& node, bool came);

  const net::Transport& transport_;
  state::State& state_;
  std::vector<NodeId> online_;
  uint64_t version_ = 0;
  std::deque<std::pair<NodeId, bool>> changes_;  // the newest; true: came
};

// The other end: brings `online`, in order of the ids, to what `update` tells of it, whose own lists may be in any order.
// kInvalidArgument, and nothing is changed, when more nodes than a message may name would be online.
absl::Status FollowPresence(wire::WatchUpdate& update, std::vector<NodeId>& online);

}  // namespace gdf::membership

#endif  // GDF_CORE_MEMBERSHIP_PRESENCE_H_
