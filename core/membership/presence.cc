#include "core/membership/presence.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"

namespace gdf::membership {
namespace {

// More of them are no shorter than everybody, in a network that has so many.
constexpr size_t kMaxChanges = 1024;

}  // namespace

Presence::Presence(const net::Transport& transport, state::State& state) : transport_(transport), state_(state) { Recheck(); }

bool Presence::IsMember(const NodeId& peer) const {
  return state_.CheckMember(peer, trust::Operation::kReadState).ok();
}

void Presence::Note(const NodeId& node, bool came) {
  ++version_;
  changes_.emplace_back(node, came);
  if (changes_.size() > kMaxChanges) changes_.pop_front();
}

void Presence::PeerChanged(const NodeId& peer, bool up) {
  const auto at = std::lower_bound(online_.begin(), online_.end(), peer);
  const bool known = at != online_.end() && *at == peer;
  if (up == known || peer == transport_.self() || (up && !IsMember(peer))) return;
  if (up) {
    online_.insert(at, peer);
  } else {
    online_.erase(at);
  }
  Note(peer, up);
}

void Presence::Recheck() {
  std::vector<NodeId> online;
  for (const NodeId& peer : transport_.Peers()) {
    if (IsMember(peer)) online.push_back(peer);
  }
  online.insert(std::upper_bound(online.begin(), online.end(), transport_.self()), transport_.self());
  std::vector<NodeId> came, left;
  std::ranges::set_difference(online, online_, std::back_inserter(came));
  std::ranges::set_difference(online_, online, std::back_inserter(left));
  for (const NodeId& node : came) Note(node, true);
  for (const NodeId& node : left) Note(node, false);
  online_ = std::move(online);
}

void Presence::Tell(std::optional<uint64_t> told, wire::WatchUpdate& update) const {
  const uint64_t since = told ? version_ - *told : 0;
  if (!told || since > changes_.size()) {
    update.online = online_;
    return;
  }
  std::set<NodeId> concerned;
  for (size_t i = changes_.size() - since; i < changes_.size(); ++i) concerned.insert(changes_[i].first);
  update.changes.emplace();
  for (const NodeId& node : concerned) {
    const bool here = std::ranges::binary_search(online_, node);
    (here ? update.changes->came : update.changes->left).push_back(node);
  }
}

absl::Status FollowPresence(wire::WatchUpdate& update, std::vector<NodeId>& online) {
  if (update.online) {
    online = *std::move(update.online);
    std::ranges::sort(online);
  }
  if (!update.changes) return absl::OkStatus();
  auto& [came, left] = *update.changes;
  std::ranges::sort(came);
  std::ranges::sort(left);
  std::vector<NodeId> here, stay;
  std::ranges::set_union(online, came, std::back_inserter(here));
  std::ranges::set_difference(here, left, std::back_inserter(stay));
  if (stay.size() > wire::kMaxOnlineNodes) {
    return absl::InvalidArgumentError(absl::StrCat("a coordinator names ", stay.size(), " nodes that are online, more than ", wire::kMaxOnlineNodes));
  }
  online = std::move(stay);
  return absl::OkStatus();
}

}  // namespace gdf::membership
