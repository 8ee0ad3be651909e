#include "tests/support/test_network.h"

namespace gdf::membership {
namespace {

using absl::StatusCode;
using testing::LoopThread;
using testing::Says;
using testing::TestMember;
using trust::Role;

TEST_CASE("Each role may do what is its own, and nothing else") {
  LoopThread loop;
  TestMember admin(loop, 1), submitter(loop, 2), contributor(loop, 3);
  admin.Found();
  submitter.JoinAs(admin, {Role::kSubmitter});
  contributor.JoinAs(admin, {Role::kContributor});
  const auto submit = [](std::string token) {
    return wire::SubmitJob{"job", token, "name: job\n", {}, 40};
  };
  const int64_t later = absl::ToUnixMillis(loop.executor().clock().Now()) + 60'000;
  const wire::CreateInvite invite{{9}, HashBytes("s"), 4, later, 1};
  const auto denied = [](const absl::Status& status) {
    return Says(status, StatusCode::kPermissionDenied, "role");
  };

  CHECK(denied(contributor.Do(submit("a"))));
  CHECK(denied(contributor.Do(invite)));
  CHECK(denied(contributor.Do(wire::BanNode{submitter.id(), ""})));
  CHECK(denied(contributor.Do(wire::RemoveNode{submitter.id(), ""})));
  CHECK(denied(contributor.Do(wire::SetRole{contributor.id(), 1})));

  CHECK(denied(submitter.Do(invite)));
  CHECK(denied(submitter.Do(wire::BanNode{contributor.id(), ""})));
  CHECK(denied(submitter.Do(wire::RevokeInvite{{9}})));
  const auto job = submitter.Propose(submit("b"));
  REQUIRE(job.ok());
  CHECK(denied(contributor.Do(wire::CancelJob{job->job, ""})));
  CHECK(Says(
      submitter.Do(wire::OpenEpoch{job->job, Epoch{1}, {contributor.id()}, contributor.id(), ""}),
      StatusCode::kPermissionDenied, "coordinator"));
  CHECK(submitter.Do(wire::CancelJob{job->job, ""}).ok());

  const auto of_admin = admin.Propose(submit("c"));
  REQUIRE(of_admin.ok());
  CHECK(Says(submitter.Do(wire::CancelJob{of_admin->job, ""}), StatusCode::kPermissionDenied,
             "another node"));
  CHECK(admin.Do(invite).ok());
  CHECK(admin.Do(wire::RevokeInvite{{9}}).ok());
}

// How long it took until neither of the two is connected with the other.
absl::Duration CutAfter(LoopThread& loop, TestMember& a, TestMember& b) {
  const absl::Duration begin = loop.Now();
  CHECK(loop.Comes(
      [&] { return !a.transport().Connected(b.id()) && !b.transport().Connected(a.id()); }));
  return loop.Now() - begin;
}

TEST_CASE(
    "A banned or removed node is cut off everywhere within a second, hears why and cannot come "
    "back") {
  LoopThread loop;
  TestMember n1(loop, 1), n2(loop, 2), n3(loop, 3);
  n1.Found();
  n2.JoinAs(n1, {Role::kContributor});
  n3.JoinAs(n1, {Role::kContributor});
  REQUIRE(n2.Follows(n1));
  // The two members talk to each other too.
  net::Registration echo = loop.On([&] {
    return n3.transport().HandleCall(
        "echo", [](NodeId, Buffer b) -> Task<absl::StatusOr<Buffer>> { co_return b; });
  });
  REQUIRE(loop.Await<absl::StatusOr<Buffer>>([&] {
                return n2.transport().Call(n3.id(), "echo", Buffer("hi"), testing::kSoon);
              })
              .ok());
  const bool ban = GENERATE(true, false);
  if (ban) {
    REQUIRE(n1.Do(wire::BanNode{n2.id(), "mining"}).ok());
  } else {
    REQUIRE(n1.Do(wire::RemoveNode{n2.id(), "mining"}).ok());
  }
  CHECK(CutAfter(loop, n1, n2) < absl::Seconds(1));
  CHECK(CutAfter(loop, n3, n2) < absl::Seconds(1));
  const auto error = [&] { return n2.membership().last_error(); };
  CHECK(loop.Comes(
      [&] { return std::string(error().message()).find("mining") != std::string::npos; }));
  CHECK(Says(loop.On(error), StatusCode::kPermissionDenied, ban ? "banned" : "removed"));
  loop.On([&] { echo.Reset(); });

  // With its old state, and with none but a new invite.
  n2.Restart();
  TestMember again(loop, 2);
  const absl::Status joined = again.Join(n1.MakeInvite({Role::kContributor}));
  if (ban) {
    CHECK(Says(joined, StatusCode::kPermissionDenied, "banned from network my-net: mining"));
    CHECK(Says(joined, StatusCode::kPermissionDenied, "node unban "));
    CHECK_FALSE(loop.On([&] { return n1.membership().IsOnline(n2.id()); }));
    REQUIRE(n1.Do(wire::UnbanNode{n2.id()}).ok());
    CHECK(again.Join(n1.MakeInvite({Role::kContributor})).ok());
  } else {
    CHECK(joined.ok());  // an admin's new invite takes a removed node back
  }
}

TEST_CASE("A node that leaves by its own command hears that it was recorded") {
  LoopThread loop;
  TestMember n1(loop, 1), n2(loop, 2);
  n1.Found();
  n2.JoinAs(n1, {Role::kContributor});
  CHECK(n2.Do(wire::RemoveNode{n2.id(), "left"}).ok());
  CHECK(loop.On([&] { return n2.state().member(n2.id())->status; }) ==
        state::MemberStatus::kRemoved);
  CutAfter(loop, n1, n2);
}

TEST_CASE("A node replaces its key: the old one is refused, the new one has its place") {
  LoopThread loop;
  TestMember n1(loop, 1);
  auto n2 = std::make_unique<TestMember>(loop, 2);
  n1.Found();
  n2->JoinAs(n1, {Role::kContributor});
  const NetworkId network = loop.On([&] { return n1.state().network()->id; });
  const trust::NodeKey next = TestMember::KeyOf(12);
  REQUIRE(
      n2->Do(wire::RotateKey{trust::KeyRotation::Make(network, n2->key(), next, 1'700'000'000'000)})
          .ok());
  CHECK(loop.On([&] {
    return n2->state().member(next.id()).ok();
  }));  // recorded here: it can take the key over
  CutAfter(loop, n1, *n2);

  absl::Status refused;
  loop.On(
      [&] { n2->membership().OnRefused([&refused](const absl::Status& why) { refused = why; }); });
  CHECK(loop.Comes([&] { return !refused.ok(); }));
  CHECK(refused.code() == StatusCode::kPermissionDenied);
  n2.reset();
  TestMember renewed(loop, {.number = 12, .name = "n2"});
  REQUIRE(renewed.Join(n1.MakeInvite({Role::kContributor})).ok());
  CHECK(loop.On([&] { return renewed.state().member(next.id())->profile.name; }) == "n2");
  TestMember old(loop, 2);
  CHECK(Says(old.Join(n1.MakeInvite({Role::kContributor})), StatusCode::kPermissionDenied,
             "replaced by another"));
}

TEST_CASE("A coordinator replaces its key and its members follow the new one") {
  testing::LoopThread loop;
  TestMember n2(loop, 2);
  const trust::NodeKey next = TestMember::KeyOf(11);
  auto n1 = std::make_unique<TestMember>(loop, 1);
  n1->Found();
  n2.JoinAs(*n1, {Role::kContributor});
  const NetworkId network = loop.On([&] { return n1->state().network()->id; });
  REQUIRE(
      n1->Do(wire::RotateKey{trust::KeyRotation::Make(network, n1->key(), next, 1'700'000'000'000)})
          .ok());
  REQUIRE(n2.Follows(*n1));
  // The daemon starts again with the new key over the same state; here the state is carried over by
  // following.
  const std::string address = n1->address();
  const std::vector<state::LogEntry> log =
      *loop.On([&] { return n1->state().LogEntries(1, ~size_t{0}); });
  n1.reset();
  TestMember renewed(loop, {.number = 11, .name = "n1", .listen = address});
  loop.On([&] {
    for (const state::LogEntry& entry : log)
      REQUIRE(renewed.state().Apply(entry.index, entry.command).ok());
    renewed.membership().Start(renewed.Profile());
  });
  CHECK(loop.Comes(
      [&] { return n2.membership().connected() && renewed.membership().IsOnline(n2.id()); }));
}

}  // namespace
}  // namespace gdf::membership
