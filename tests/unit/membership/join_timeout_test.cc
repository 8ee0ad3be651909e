#include <catch2/catch.hpp>

#include "core/membership/membership.h"
#include "tests/sim/sim_network.h"

namespace gdf::membership {
namespace {

// A node in simulated time.
struct SimMember {
  SimMember(SimExecutor& executor, sim::SimNetwork& network, uint8_t number)
      : key(trust::NodeKey::FromSeed({number})),
        rng(number),
        transport(network.Join(key.id())),
        membership(Environment{executor, *transport, *state, key, rng}) {
    wire::NodeProfile profile;
    profile.name = "n" + std::to_string(number);
    membership.Start(profile);
  }
  trust::NodeKey key;
  SeededRng rng;
  std::unique_ptr<state::State> state = *state::State::OpenInMemory();
  std::unique_ptr<sim::SimTransport> transport;
  Membership membership;
};

class JoinTimeout {
 public:
  JoinTimeout() { REQUIRE(n1.membership.Found("my-net").ok()); }

  trust::Invite MakeInvite() {
    trust::Invite invite;
    invite.Randomize(n1.rng);
    invite.network = n1.state->network()->id;
    invite.roles = {trust::Role::kContributor};
    invite.expires_unix_ms = absl::ToUnixMillis(executor.Now() + absl::Hours(1));
    invite.coordinators = {{n1.key.id(), {"192.0.2.1:7420"}}};
    wire::CreateInvite command{invite.id, trust::InviteSecretHash(invite.id, invite.secret),
                               invite.roles.bits(), invite.expires_unix_ms, 1};
    std::optional<absl::Status> made;
    scope_.Spawn(Create(&n1.membership, std::move(command), &made));
    REQUIRE(executor.RunUntil([&] { return made.has_value(); }));
    REQUIRE(made->ok());
    return invite;
  }
  absl::Status Join(const trust::Invite& invite) {
    std::optional<absl::Status> joined;
    scope_.Spawn(JoinInto(&n2.membership, invite, &joined));
    REQUIRE(executor.RunUntil([&] { return joined.has_value(); }, absl::Minutes(5)));
    return *joined;
  }

  SimExecutor executor;
  sim::SimNetwork network{executor, 1};
  SimMember n1{executor, network, 1}, n2{executor, network, 2};

 private:
  static Task<void> Create(Membership* membership, wire::CreateInvite command,
                           std::optional<absl::Status>* made) {
    wire::CommandBody body = std::move(command);
    absl::StatusOr<wire::CommandResult> result =
        co_await membership->ProposeChecked(std::move(body));
    made->emplace(result.status());
  }
  static Task<void> JoinInto(Membership* membership, trust::Invite invite,
                             std::optional<absl::Status>* joined) {
    absl::Status status = co_await membership->Join(std::move(invite), "");
    joined->emplace(std::move(status));
  }
  TaskScope scope_{executor};
};

TEST_CASE("A node whose coordinator never sends the log is in no network, and may join again") {
  JoinTimeout world;
  const trust::Invite invite = world.MakeInvite();
  const NodeId id1 = world.n1.key.id(), id2 = world.n2.key.id();
  world.network.set_on_message([&](const sim::SimMessage& message) {
    if (message.method == "membership.watch") world.network.Cut(id1, id2);
  });
  const absl::Status failed = world.Join(invite);
  INFO(failed);
  CHECK(absl::IsDeadlineExceeded(failed));
  CHECK(std::string(failed.message()).find("in no network") != std::string::npos);
  CHECK(world.n1.state->member(id2).ok());
  CHECK(world.n2.state->last_applied() == 0);

  // Nothing of it goes on: with the coordinator back, the log does not come unasked.
  world.network.set_on_message({});
  world.network.Heal(id1, id2);
  world.executor.RunUntil([] { return false; }, absl::Minutes(10));
  CHECK(world.n2.state->last_applied() == 0);

  SECTION("the same network, with the same invite") {
    CHECK(world.Join(invite).ok());
    CHECK(world.n2.state->network()->id == invite.network);
  }
  SECTION("a network of its own") {
    CHECK(world.n2.membership.Found("other-net").ok());
  }
}

}  // namespace
}  // namespace gdf::membership
