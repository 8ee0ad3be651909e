#include "core/membership/presence.h"

#include <array>

#include "core/base/executor.h"
#include "tests/sim/sim_network.h"
#include "tests/unit/state/fixture.h"

namespace gdf::membership {
namespace {

using state::IdOf;

constexpr std::array kMembers = {"n1", "n2", "n3", "n4", "n5", "n6"};

// The coordinator "c" with six members, of which nobody is connected.
struct Site {
  Site() {
    world.Found();
    for (const std::string_view member : kMembers) world.Admit(member, {trust::Role::kContributor});
  }
  state::World world;
  SimExecutor executor;
  sim::SimNetwork network{executor, 1};
  std::unique_ptr<sim::SimTransport> transport = network.Join(IdOf("c"));
  Presence presence{*transport, *world.state};
};

// A member that is told now and then. Its list goes through the messages' own encoding.
struct Follower {
  // Whether it was told of changes alone.
  bool Hear(const Presence& presence) {
    wire::WatchUpdate update;
    presence.Tell(told, update);
    told = presence.version();
    wire::WatchUpdate received = *wire::DecodeWatchUpdate(wire::Encode(update));
    REQUIRE(received.online.has_value() != received.changes.has_value());
    const bool changes = received.changes.has_value();
    REQUIRE(FollowPresence(received, online).ok());
    return changes;
  }
  std::optional<uint64_t> told;
  std::vector<NodeId> online;
};

TEST_CASE("Whoever is told of changes, however often, knows who is online") {
  const auto seed = GENERATE(range(1, 20));
  CAPTURE(seed);
  SeededRng rng(static_cast<uint64_t>(seed));
  Site site;
  std::array<Follower, 4> followers;
  for (Follower& follower : followers) CHECK_FALSE(follower.Hear(site.presence));
  for (int step = 0; step < 300; ++step) {
    site.presence.PeerChanged(IdOf(kMembers[rng.Below(kMembers.size())]), rng.Below(2) == 0);
    // The first hears everything, each other one more seldom than the one before.
    for (size_t i = 0; i < followers.size(); ++i) {
      if (rng.Below(uint64_t{1} << (2 * i)) != 0) continue;
      CHECK(followers[i].Hear(site.presence));
      CHECK(followers[i].online == site.presence.online());
    }
  }
  CHECK(site.presence.version() > 50);
}

TEST_CASE("Who missed more changes than are kept is told everybody") {
  Site site;
  Follower follower;
  follower.Hear(site.presence);
  for (int i = 0; i < 600; ++i) {
    site.presence.PeerChanged(IdOf("n1"), true);
    site.presence.PeerChanged(IdOf("n1"), false);
  }
  site.presence.PeerChanged(IdOf("n2"), true);
  CHECK_FALSE(follower.Hear(site.presence));
  CHECK(follower.online == site.presence.online());
  CHECK(follower.online.size() == 2);
}

TEST_CASE("A stranger is not online, nor does the same twice count as a change") {
  Site site;
  const uint64_t before = site.presence.version();
  site.presence.PeerChanged(IdOf("stranger"), true);
  site.presence.PeerChanged(IdOf("n1"), false);
  site.presence.PeerChanged(IdOf("c"), false);
  CHECK(site.presence.version() == before);
  CHECK(site.presence.online() == std::vector{IdOf("c")});
  site.presence.PeerChanged(IdOf("n1"), true);
  site.presence.PeerChanged(IdOf("n1"), true);
  CHECK(site.presence.version() == before + 1);
}

TEST_CASE("A look at everybody mends what no change told of") {
  Site site;
  Follower follower;
  follower.Hear(site.presence);
  site.presence.PeerChanged(IdOf("n1"), true);  // of which nothing says that it went again
  const std::unique_ptr<sim::SimTransport> n2 = site.network.Join(IdOf("n2"));
  TaskScope scope(site.executor);
  scope.Spawn([](net::Transport& from) -> Task<void> { CHECK((co_await from.Reach(IdOf("c"), absl::Seconds(10))).ok()); }(*n2));
  REQUIRE(site.executor.RunUntil([&] { return site.transport->Connected(IdOf("n2")); }));
  site.presence.Recheck();
  CHECK(follower.Hear(site.presence));
  CHECK(follower.online == site.presence.online());
  CHECK(std::ranges::binary_search(follower.online, IdOf("n2")));
  CHECK_FALSE(std::ranges::binary_search(follower.online, IdOf("n1")));
}

TEST_CASE("No coordinator makes a member keep more names than one message may hold") {
  std::vector<NodeId> online;
  SeededRng rng(1);
  const auto names = [&](size_t count) {
    wire::WatchUpdate update;
    update.changes.emplace();
    update.changes->came.resize(count);
    for (NodeId& id : update.changes->came) id = NodeId(HashBytes(std::to_string(rng.Below(uint64_t{1} << 62))));
    return update;
  };
  wire::WatchUpdate most = names(wire::kMaxOnlineNodes), one = names(1);
  REQUIRE(FollowPresence(most, online).ok());
  const std::vector<NodeId> before = online;
  CHECK(FollowPresence(one, online).code() == absl::StatusCode::kInvalidArgument);
  CHECK(online == before);
}

}  // namespace
}  // namespace gdf::membership
