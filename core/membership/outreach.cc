#include "core/membership/outreach.h"

#include <algorithm>
#include <utility>

namespace gdf::membership {
namespace {

// Members that find the coordinator by themselves have come by then.
constexpr absl::Duration kFirstPause = absl::Seconds(1);
constexpr absl::Duration kLastPause = absl::Minutes(1);  // what is not there costs a dial as often
constexpr absl::Duration kReachTimeout = absl::Seconds(15);
// A network of 1,000 of whom nobody answers is through in 5 minutes.
constexpr size_t kMaxAtOnce = 32;

}  // namespace

Outreach::Outreach(net::Transport& transport, state::State& state, Rng& rng)
    : transport_(transport), state_(state), rng_(rng), tasks_(transport.executor()) {
  tasks_.Spawn(Run());
}

Task<void> Outreach::Run() {
  for (absl::Duration pause = kFirstPause;; pause = std::min(pause * 2, kLastPause)) {
    const absl::Duration jitter = pause * (0.5 + rng_.Unit());
    co_await Sleep(transport_.executor(), jitter);
    co_await ReachAbsent();
  }
}

Task<void> Outreach::ReachAbsent() {
  const std::vector<NodeId> absent = Absent();
  for (size_t at = 0; at < absent.size(); at += kMaxAtOnce) {
    std::vector<Task<absl::Status>> some;
    for (size_t i = at; i < std::min(at + kMaxAtOnce, absent.size()); ++i) {
      some.push_back(transport_.Reach(absent[i], kReachTimeout));
    }
    co_await WhenAll(transport_.executor(), std::move(some));
  }
}

std::vector<NodeId> Outreach::Absent() const {
  std::vector<NodeId> absent;
  const absl::StatusOr<std::vector<state::Member>> members = state_.members();
  if (!members.ok()) return absent;
  for (const state::Member& member : *members) {
    const bool active = member.status == state::MemberStatus::kActive;
    if (active && member.id != transport_.self() && !transport_.Connected(member.id)) {
      absent.push_back(member.id);
    }
  }
  return absent;
}

}  // namespace gdf::membership
