#include "tests/support/temporary_folder.h"
#include "tests/support/test_network.h"

namespace gdf::membership {
namespace {

using absl::StatusCode;
using testing::LoopThread;
using testing::Says;
using testing::TestMember;
using trust::Role;

TEST_CASE("A node founds a network and is its coordinator, once") {
  LoopThread loop;
  TestMember n1(loop, 1);
  CHECK(Says(n1.Do(wire::UpdateNode{n1.Profile()}), StatusCode::kFailedPrecondition,
             "in no network"));
  CHECK(Says(loop.On([&] { return n1.membership().Found("bad name").status(); }),
             StatusCode::kInvalidArgument, "bad name"));
  n1.Found();
  loop.On([&] {
    CHECK(n1.membership().coordinator());
    CHECK(n1.membership().connected());
    CHECK(n1.membership().Online() == std::vector<NodeId>{n1.id()});
    CHECK(n1.state().network()->coordinators == std::vector<NodeId>{n1.id()});
    CHECK(n1.state().member(n1.id())->roles == trust::RoleSet::All());
    CHECK(Says(n1.membership().Found("other").status(), StatusCode::kFailedPrecondition,
               "gdfctl leave"));
  });
  CHECK(Says(n1.Join(n1.MakeInvite({Role::kAdmin})), StatusCode::kFailedPrecondition,
             "gdfctl leave"));
}

TEST_CASE("An invite makes a member with its role, whose state follows the coordinator's") {
  LoopThread loop;
  TestMember n1(loop, 1), n2(loop, 2);
  n1.Found();
  REQUIRE(n2.Join(n1.MakeInvite({Role::kContributor}), "zwei").ok());
  loop.On([&] {
    CHECK(n2.state().network()->id == n1.state().network()->id);
    const state::Member self = *n2.state().member(n2.id());
    CHECK(self.roles == trust::RoleSet{Role::kContributor});
    CHECK(self.profile.name == "zwei");
    CHECK_FALSE(n2.membership().coordinator());
  });
  CHECK(loop.Comes(
      [&] { return n2.membership().IsOnline(n1.id()) && n2.membership().IsOnline(n2.id()); }));
  CHECK(loop.Comes([&] { return n1.membership().IsOnline(n2.id()); }));
  REQUIRE(n1.Do(wire::SetRole{n2.id(), trust::RoleSet{Role::kSubmitter}.bits()}).ok());
  CHECK(loop.Comes(
      [&] { return n2.state().member(n2.id())->roles == trust::RoleSet{Role::kSubmitter}; }));
  CHECK(n2.HasStateOf(n1));
}

// kSoon is less than the interval at which everybody is told anyhow.
TEST_CASE("Those who joined before hear of a joiner, and of one that is put out") {
  LoopThread loop;
  TestMember n1(loop, 1), n2(loop, 2), n3(loop, 3);
  n1.Found();
  n2.JoinAs(n1, {Role::kContributor});
  n3.JoinAs(n1, {Role::kContributor});
  const auto online = [&](TestMember& node) {
    return loop.Comes([&] { return node.membership().Online() == n1.membership().Online(); });
  };
  CHECK(loop.On([&] { return n1.membership().Online().size(); }) == 3);
  CHECK(online(n2));
  CHECK(online(n3));
  REQUIRE(n1.Do(wire::BanNode{n3.id(), "gone"}).ok());
  CHECK(loop.On([&] { return n1.membership().Online().size(); }) == 2);
  CHECK(online(n2));
}

TEST_CASE("An invite that is used up, expired, revoked, forged or of another network says which") {
  LoopThread loop;
  TestMember n1(loop, 1), n2(loop, 2), other(loop, 3);
  n1.Found();
  other.Found("other-net");

  const trust::Invite used = n1.MakeInvite({Role::kContributor});
  TestMember first(loop, 4);
  REQUIRE(first.Join(used).ok());
  CHECK(Says(n2.Join(used), StatusCode::kPermissionDenied, "was good for 1 node and is used up"));

  const trust::Invite expired = n1.MakeInvite({Role::kContributor}, 1, absl::Milliseconds(20));
  REQUIRE(loop.Comes(
      [&] { return absl::ToUnixMillis(loop.executor().clock().Now()) > expired.expires_unix_ms; }));
  CHECK(Says(n2.Join(expired), StatusCode::kPermissionDenied, "the invite expired"));

  const trust::Invite revoked = n1.MakeInvite({Role::kContributor});
  REQUIRE(n1.Do(wire::RevokeInvite{revoked.id}).ok());
  CHECK(Says(n2.Join(revoked), StatusCode::kPermissionDenied, "was revoked"));

  trust::Invite forged = n1.MakeInvite({Role::kContributor});
  forged.secret[0] ^= 1;
  CHECK(Says(n2.Join(forged), StatusCode::kPermissionDenied, "altered or forged"));
  forged.Randomize(n2.rng());
  CHECK(Says(n2.Join(forged), StatusCode::kPermissionDenied, "has not issued that invite"));

  trust::Invite foreign = other.MakeInvite({Role::kContributor});
  foreign.coordinators = n1.MakeInvite({Role::kContributor}).coordinators;
  CHECK(Says(n2.Join(foreign), StatusCode::kPermissionDenied, "another network"));

  // None of these left anything behind.
  CHECK(n2.applied() == 0);
  CHECK(n2.Join(n1.MakeInvite({Role::kContributor})).ok());
}

TEST_CASE("What a stranger is refused grows nobody's log") {
  LoopThread loop;
  TestMember n1(loop, 1), member(loop, 2), stranger(loop, 3);
  n1.Found();
  member.JoinAs(n1, {Role::kContributor});
  trust::Invite forged = n1.MakeInvite({Role::kContributor});
  const uint64_t entries = n1.applied();
  for (int i = 0; i < 20; ++i) {
    forged.Randomize(stranger.rng());
    REQUIRE(Says(stranger.Join(forged), StatusCode::kPermissionDenied, "has not issued that invite"));
  }
  CHECK(n1.applied() == entries);
  CHECK(member.Follows(n1));
}

TEST_CASE("A counted invite admits as many nodes as it says") {
  LoopThread loop;
  TestMember n1(loop, 1), n2(loop, 2), n3(loop, 3), n4(loop, 4);
  n1.Found();
  const trust::Invite invite = n1.MakeInvite({Role::kContributor}, 2);
  CHECK(n2.Join(invite).ok());
  CHECK(n3.Join(invite).ok());
  CHECK(Says(n4.Join(invite), StatusCode::kPermissionDenied, "good for 2 nodes"));
}

TEST_CASE("A joiner accepts no other key than the one the invite pins") {
  LoopThread loop;
  TestMember n1(loop, 1), impostor(loop, 9), n2(loop, 2);
  n1.Found();
  impostor.Found();
  trust::Invite invite = n1.MakeInvite({Role::kContributor});
  invite.coordinators[0].addresses = {impostor.address()};
  const absl::Status refused = n2.Join(invite);
  CHECK(Says(refused, StatusCode::kUnavailable, impostor.address()));
  CHECK(Says(refused, StatusCode::kUnavailable, n1.id().Short()));
  CHECK(n2.applied() == 0);
}

TEST_CASE("A coordinator that is not there is named") {
  LoopThread loop;
  TestMember n1(loop, 1), n2(loop, 2);
  n1.Found();
  trust::Invite invite = n1.MakeInvite({Role::kContributor});
  {
    TestMember gone(loop, 7);
    invite.coordinators[0].addresses = {gone.address()};
  }
  CHECK(Says(n2.Join(invite), StatusCode::kUnavailable, invite.coordinators[0].addresses[0]));
}

TEST_CASE("A node whose name is taken gets a number, keeps it, and still tells what else changes") {
  testing::TemporaryFolder folder;
  LoopThread loop;
  TestMember n1(loop, {.number = 1, .name = "host"});
  TestMember n2(loop, {.number = 2, .name = "host", .state_path = folder.path() + "/n2.db"});
  n1.Found();
  n2.JoinAs(n1, {Role::kContributor});
  const auto recorded = [&] { return n1.state().member(n2.id())->profile; };
  CHECK(loop.On(recorded).name == "host-2");
  REQUIRE(loop.Comes([&] { return n2.membership().connected(); }));
  // Its profile is as the network has it: nothing is proposed, not even again after a reconnection.
  const uint64_t before = n1.applied();
  loop.On([&] { n1.transport().Disconnect(n2.id(), absl::UnavailableError("test")); });
  REQUIRE(loop.Comes([&] { return !n2.membership().connected(); }));
  REQUIRE(loop.Comes([&] { return n2.membership().connected(); }));
  CHECK(n1.applied() == before);

  n2.options().advertise = {"192.0.2.7:7420"};
  n2.Restart();
  CHECK(loop.Comes([&] { return recorded().addresses == n2.options().advertise; }));
  CHECK(loop.On(recorded).name == "host-2");
}

TEST_CASE("A node that wants another's name keeps its own, and still tells what else changed") {
  testing::TemporaryFolder folder;
  LoopThread loop;
  TestMember n1(loop, 1);
  TestMember n2(loop, {.number = 2, .state_path = folder.path() + "/n2.db"});
  n1.Found();
  n2.JoinAs(n1, {Role::kContributor});
  n2.options().name = "n1";
  n2.options().cpu_threads = 7;
  n2.Restart();
  const auto recorded = [&] { return n1.state().member(n2.id())->profile; };
  CHECK(loop.Comes([&] { return recorded().resources.cpu_threads == 7; }));
  CHECK(loop.On(recorded).name == "n2");
}

TEST_CASE("A node that lost its state joins again under its key") {
  LoopThread loop;
  TestMember n1(loop, 1);
  n1.Found();
  {
    TestMember n2(loop, 2);
    n2.JoinAs(n1, {Role::kContributor});
  }
  TestMember again(loop, 2);
  const trust::Invite invite = n1.MakeInvite({Role::kSubmitter});
  REQUIRE(again.Join(invite).ok());
  CHECK(loop.On([&] { return again.state().member(again.id())->roles; }) ==
        trust::RoleSet{Role::kContributor});
  TestMember n3(loop, 3);
  CHECK(n3.Join(invite).ok());  // the repetition did not use it up
}

}  // namespace
}  // namespace gdf::membership
