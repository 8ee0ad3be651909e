#include <thread>

#include "gdfd/services/backup.h"
#include "tests/unit/services/service_node.h"

namespace gdf::services {
namespace {

using absl::StatusCode;
using trust::Role;

TEST_CASE("A node in no network says so, and what to do") {
  LoopThread loop;
  ServiceNode n1(loop, 1);
  const auto client = n1.Client();
  const auto status = client->Status();
  REQUIRE(status.ok());
  CHECK(status->node_id == n1.member().id().ToString());
  CHECK(status->network_id.empty());
  CHECK(status->listen == std::vector<std::string>{n1.member().address()});
  CHECK(Says(client->Leave().status(), StatusCode::kFailedPrecondition, "in no network"));
  CHECK(Says(client->RotateKey().status(), StatusCode::kFailedPrecondition, "in no network"));
  CHECK(Says(client->CreateInvite("contributor", absl::Hours(1), 1).status(), StatusCode::kNotFound,
             "gdfctl network create"));
  CHECK(Says(client->ChangeNode("n1", control::NodeChange::kBan), StatusCode::kNotFound, "n1"));
  CHECK(client->ListJobs()->empty());
}

TEST_CASE("Coordinators are chosen by the control API, while enough of them are online") {
  LoopThread loop;
  ServiceNode n1(loop, 1);
  auto n2 = std::make_unique<ServiceNode>(loop, 2), n3 = std::make_unique<ServiceNode>(loop, 3);
  const auto c1 = n1.Client();
  REQUIRE(c1->CreateNetwork("my-net").ok());
  const auto invite = c1->CreateInvite("contributor", absl::Hours(24), 2);
  REQUIRE(n2->Client()->Join(invite->text, "zwei").ok());
  REQUIRE(n3->Client()->Join(invite->text, "drei").ok());
  CHECK(Says(n2->Client()->ChangeNode("zwei", control::NodeChange::kAddCoordinator),
             StatusCode::kPermissionDenied, "admin"));
  const absl::Status added = c1->ChangeNode("zwei", control::NodeChange::kAddCoordinator);
  INFO(added);
  REQUIRE(added.ok());
  CHECK(loop.Comes([&] { return n1.member().membership().leader() && n2->member().membership().leader(); }));
  const auto status = n2->Client()->Status();
  CHECK(status->coordinator);
  CHECK(status->coordinators == 2);
  CHECK_FALSE(status->leader.empty());
  CHECK(Says(n2->Client()->Leave().status(), StatusCode::kFailedPrecondition, "gdfctl coordinator remove"));
  n3.reset();
  CHECK(loop.Comes([&] { return n1.member().membership().Online().size() == 2; }));
  CHECK(Says(c1->ChangeNode("drei", control::NodeChange::kAddCoordinator), StatusCode::kFailedPrecondition, "drei"));
  REQUIRE(c1->ChangeNode("zwei", control::NodeChange::kRemoveCoordinator).ok());
  CHECK(c1->Status()->coordinators == 1);
  CHECK(c1->Status()->leader == c1->Status()->node_name);
}

TEST_CASE("Create, invite, join, list, change and remove by the control API") {
  LoopThread loop;
  ServiceNode n1(loop, 1), n2(loop, 2);
  const auto c1 = n1.Client(), c2 = n2.Client();
  CHECK(Says(c1->CreateNetwork("no spaces allowed").status(), StatusCode::kInvalidArgument,
             "no spaces allowed"));
  const auto network = c1->CreateNetwork("my-net");
  REQUIRE(network.ok());
  CHECK(Says(c1->CreateNetwork("again").status(), StatusCode::kFailedPrecondition, "gdfctl leave"));

  CHECK(Says(c1->CreateInvite("king", absl::Hours(1), 1).status(), StatusCode::kInvalidArgument,
             "king"));
  CHECK(Says(c1->CreateInvite("contributor", absl::ZeroDuration(), 1).status(),
             StatusCode::kInvalidArgument, "positive"));
  CHECK(Says(c1->CreateInvite("contributor", absl::Hours(1), 0).status(),
             StatusCode::kInvalidArgument, "uses"));
  CHECK(Says(c1->CreateInvite("contributor", absl::Hours(24 * 400), 1).status(),
             StatusCode::kInvalidArgument, "--ttl"));
  const auto invite = c1->CreateInvite("contributor", absl::Hours(24), 3);
  REQUIRE(invite.ok());
  CHECK(invite->uses_left == 3);
  CHECK(Says(c2->Join("gdf1:abc", "").status(), StatusCode::kInvalidArgument, "invite"));
  const auto joined = c2->Join(invite->text, "zwei");
  INFO(joined.status());
  REQUIRE(joined.ok());
  CHECK(joined->network_id == *network);
  CHECK(joined->network_name == "my-net");
  CHECK(joined->node_name == "zwei");
  CHECK(joined->roles == "contributor");
  CHECK(c1->ListInvites()->at(0).uses_left == 2);
  REQUIRE(c1->RevokeInvite(invite->id).ok());
  CHECK(c1->ListInvites()->at(0).revoked);
  CHECK(Says(c1->RevokeInvite("zz"), StatusCode::kInvalidArgument, ""));

  const auto nodes = c1->ListNodes();
  REQUIRE(nodes->size() == 2);
  CHECK(nodes->at(0).coordinator);
  CHECK(nodes->at(0).online);
  CHECK(nodes->at(1).name == "zwei");
  CHECK(nodes->at(1).online);
  CHECK(nodes->at(1).addresses == std::vector<std::string>{n2.member().address()});

  CHECK(Says(c2->ChangeNode("n1", control::NodeChange::kRemove), StatusCode::kPermissionDenied,
             "admin"));
  CHECK(Says(c2->CreateInvite("admin", absl::Hours(1), 1).status(), StatusCode::kPermissionDenied,
             "admin"));
  REQUIRE(c1->ChangeNode("zwei", control::NodeChange::kRole, "submitter,contributor").ok());
  CHECK(Says(c1->ChangeNode("zwei", control::NodeChange::kRole, "boss"),
             StatusCode::kInvalidArgument, "boss"));
  CHECK(loop.Comes([&] {
    return n2.member().state().member(n2.member().id())->roles.ToString() ==
           "submitter,contributor";
  }));
  REQUIRE(c1->ChangeNode(n2.member().id().ToString().substr(0, 8), control::NodeChange::kBan).ok());
  CHECK(loop.Comes([&] { return !n1.member().membership().IsOnline(n2.member().id()); },
                   absl::Seconds(1)));
  CHECK(c1->ListNodes()->at(1).state == "banned");
  CHECK(loop.Comes([&] { return !n2.member().membership().last_error().ok(); }));
  const auto status = c2->Status();
  CHECK_FALSE(status->coordinator_connected);
  REQUIRE_FALSE(status->warnings.empty());
  CHECK(status->warnings[0].find("banned") != std::string::npos);
}

TEST_CASE("A ping tells the path to a node and how long a message takes, or why none comes back") {
  LoopThread loop;
  ServiceNode n1(loop, 1);
  auto n2 = std::make_unique<ServiceNode>(loop, 2);
  REQUIRE(n1.Client()->CreateNetwork("my-net").ok());
  REQUIRE(n2->Client()
              ->Join(n1.Client()->CreateInvite("contributor", absl::Hours(1), 1)->text, "zwei")
              .ok());
  const auto to_coordinator = n2->Client()->Ping("n1");
  INFO(to_coordinator.status());
  REQUIRE(to_coordinator.ok());
  CHECK(to_coordinator->id == n1.member().id().ToString());
  CHECK(to_coordinator->remote == n1.member().address());
  CHECK(to_coordinator->dialled);
  CHECK(to_coordinator->connections == 1);
  CHECK(to_coordinator->round_trip > absl::ZeroDuration());
  CHECK(to_coordinator->tcp_rtt > absl::ZeroDuration());
  CHECK(to_coordinator->rate_bytes_per_sec == 0);
  const std::string id = n2->member().id().ToString();
  REQUIRE(loop.Comes([&] { return n1.member().state().member(n2->member().id()).ok(); }));
  const auto back = n1.Client()->Ping(id.substr(0, 8));
  INFO(back.status());
  REQUIRE(back.ok());
  CHECK(back->name == "zwei");
  CHECK_FALSE(back->dialled);
  CHECK(Says(n1.Client()->Ping("n1").status(), StatusCode::kInvalidArgument, "'n1' is this node"));
  CHECK(Says(n1.Client()->Ping("nobody").status(), StatusCode::kNotFound, "nobody"));
  n2.reset();
  CHECK(Says(n1.Client()->Ping("zwei").status(), StatusCode::kUnavailable, "zwei"));
}

TEST_CASE("A member leaves, a coordinator may not") {
  LoopThread loop;
  ServiceNode n1(loop, 1), n2(loop, 2);
  REQUIRE(n1.Client()->CreateNetwork("my-net").ok());
  REQUIRE(n2.Client()
              ->Join(n1.Client()->CreateInvite("contributor", absl::Hours(1), 1)->text, "")
              .ok());
  CHECK(Says(n1.Client()->Leave().status(), StatusCode::kFailedPrecondition, "coordinator"));
  REQUIRE(n2.Client()->Leave().ok());
  CHECK(*n2.Client()->Leave() == "");  // asked for again before that
  CHECK(PosixFileSystem().Exists(n2.folder() + "/leave"));  // carried out by the next start
  CHECK(n2.restarted() == "leaving the network");
}

TEST_CASE("A node is paused and resumed, in a network or in none, and the others see it") {
  LoopThread loop;
  ServiceNode n1(loop, 1), n2(loop, 2);
  const auto client = n2.Client();
  CHECK_FALSE(client->Status()->paused);
  REQUIRE(client->Pause(absl::ZeroDuration(), false).ok());
  CHECK(client->Status()->paused);
  CHECK(client->Status()->paused_until == absl::InfinitePast());
  REQUIRE(n1.Client()->CreateNetwork("my-net").ok());
  REQUIRE(client->Join(n1.Client()->CreateInvite("contributor", absl::Hours(1), 1)->text, "").ok());
  const auto seen_paused = [&](bool paused) {
    return loop.Comes([&] { return n1.member().state().member(n2.member().id())->profile.resources.paused == paused; });
  };
  const auto listed_paused = [&] {
    const auto nodes = n1.Client()->ListNodes();
    for (const control::Node& node : *nodes) {
      if (node.name == "n2") return node.paused;
    }
    return false;
  };
  const absl::Time before = absl::Now();
  REQUIRE(client->Pause(absl::Hours(2), true).ok());
  const absl::Time until = client->Status()->paused_until;
  CHECK(until >= before + absl::Hours(2) - absl::Seconds(1));
  CHECK(until <= absl::Now() + absl::Hours(2));
  REQUIRE(seen_paused(true));
  CHECK(listed_paused());
  CHECK(Says(client->Pause(absl::Hours(24 * 365 * 20), false).status(), StatusCode::kInvalidArgument, "ten years"));
  CHECK(client->Status()->paused_until == until);
  REQUIRE(client->Resume().ok());
  REQUIRE(client->Resume().ok());
  CHECK_FALSE(client->Status()->paused);
  REQUIRE(seen_paused(false));
  CHECK_FALSE(listed_paused());
}

TEST_CASE("Who asks while the coordinator is away is told so soon") {
  LoopThread loop;
  auto n1 = std::make_unique<TestMember>(loop, 1);
  n1->Found();
  ServiceNode n2(loop, 2);
  const std::string invite = *n1->MakeInvite({Role::kAdmin, Role::kSubmitter}).ToText();
  REQUIRE(n2.Client()->Join(invite, "").ok());
  n1.reset();
  const absl::Time begun = absl::Now();
  CHECK(Says(n2.Client()->CreateInvite("contributor", absl::Hours(1), 1).status(),
             StatusCode::kUnavailable, "the coordinator does not answer: node n1 "));
  CHECK(absl::Now() - begun < absl::Seconds(10));  // it is given 5 s
}

TEST_CASE("A node that was put out leaves, and does not say that it is still listed") {
  LoopThread loop;
  ServiceNode n1(loop, 1), n2(loop, 2);
  REQUIRE(n1.Client()->CreateNetwork("my-net").ok());
  REQUIRE(n2.Client()
              ->Join(n1.Client()->CreateInvite("contributor", absl::Hours(1), 1)->text, "")
              .ok());
  const bool ban = GENERATE(true, false);
  REQUIRE(n1.Client()
              ->ChangeNode("n2", ban ? control::NodeChange::kBan : control::NodeChange::kRemove)
              .ok());
  if (GENERATE(true, false)) {  // whether it has heard of it yet
    REQUIRE(loop.Comes([&] { return !n2.node().membership.CheckExpelled().ok(); }));
    const std::vector<std::string> warnings = n2.Client()->Status()->warnings;
    REQUIRE(warnings.size() == 1);
    CHECK(warnings[0] == (ban ? "this node was banned by the network; an admin lifts the ban with "
                                "gdfctl node unban n2; then gdfctl leave here, and join with a new invite"
                              : "this node was removed by the network; to come back: gdfctl leave "
                                "here, and join with a new invite"));
  }
  std::vector<std::string> told(3, "no answer");
  {
    std::vector<std::thread> callers;
    for (std::string& answer : told) {
      callers.emplace_back([&n2, &answer] {
        const absl::StatusOr<std::string> left = n2.Client()->Leave();
        answer = left.ok() ? *left : left.status().ToString();
      });
    }
    for (std::thread& caller : callers) caller.join();
  }
  CHECK(told == std::vector<std::string>(3));
  CHECK(n2.restarted() == "leaving the network");
}

TEST_CASE("A key is replaced: the new one is on disk and recorded before the node begins anew") {
  LoopThread loop;
  ServiceNode n1(loop, 1), n2(loop, 2);
  REQUIRE(n1.Client()->CreateNetwork("my-net").ok());
  REQUIRE(n2.Client()
              ->Join(n1.Client()->CreateInvite("contributor", absl::Hours(1), 1)->text, "")
              .ok());
  const auto id = n2.Client()->RotateKey();
  INFO(id.status());
  REQUIRE(id.ok());
  PosixFileSystem files;
  const auto next = trust::NodeKey::Load(files, n2.folder() + "/next.key");
  REQUIRE(next.ok());
  CHECK(next->id().ToString() == *id);
  CHECK(loop.On([&] { return n2.member().state().member(next->id()).ok(); }));
  CHECK(loop.On([&] { return n1.member().state().member(next->id())->profile.name; }) == "n2");
  CHECK(n2.restarted() == "taking the new key");
}

TEST_CASE("Who asked for a new key is told of it, also when the node took it without an answer") {
  LoopThread loop;
  auto n1 = std::make_unique<TestMember>(loop, 1);
  n1->Found();
  ServiceNode n2(loop, 2);
  REQUIRE(n2.Client()->Join(*n1->MakeInvite({Role::kContributor}).ToText(), "").ok());
  PosixFileSystem files;
  REQUIRE(n2.member().key().Save(files, n2.folder() + "/node.key").ok());
  n1.reset();  // its answer does not come
  absl::StatusOr<std::string> id = absl::UnknownError("no answer");
  std::thread caller([&] { id = n2.Client()->RotateKey(); });
  REQUIRE(loop.Comes([&] { return files.Exists(n2.folder() + "/next.key"); }));
  // As a node does that is refused under its old key: TakeUnheardKey, then it begins anew.
  loop.On([&] {
    REQUIRE(files.Rename(n2.folder() + "/next.key", n2.folder() + "/node.key").ok());
  });
  n2.StopServing();
  caller.join();
  INFO(id.status());
  REQUIRE(id.ok());
  CHECK(*id == trust::NodeKey::Load(files, n2.folder() + "/node.key")->id().ToString());
}

TEST_CASE(
    "A backup holds key and state under its passphrase, and is restored into an empty folder") {
  LoopThread loop;
  ServiceNode n1(loop, 1);
  REQUIRE(n1.Client()->CreateNetwork("my-net").ok());
  CHECK(Says(n1.Client()->Backup("short").status(), StatusCode::kInvalidArgument, "8 characters"));
  const auto archive = n1.Client()->Backup("correct horse");
  REQUIRE(archive.ok());
  const auto opened = OpenBackup(*archive, "correct horse");
  REQUIRE(opened.ok());
  CHECK(opened->key.id() == n1.member().id());
  CHECK(opened->state == loop.On([&] { return *n1.member().state().Snapshot(1 << 20); }));
  CHECK(archive->find("my-net") == std::string::npos);
  CHECK(Says(OpenBackup(*archive, "wrong horse").status(), StatusCode::kPermissionDenied,
             "wrong passphrase"));
  for (const size_t at : {size_t{15}, size_t{35}, size_t{60}, archive->size() - 1}) {
    std::string changed = *archive;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    CHECK(OpenBackup(changed, "correct horse").status().code() == StatusCode::kPermissionDenied);
  }
  CHECK(Says(OpenBackup(archive->substr(0, 80), "correct horse").status(),
             StatusCode::kInvalidArgument, "no gdf backup"));
  CHECK(Says(OpenBackup("", "correct horse").status(), StatusCode::kInvalidArgument,
             "no gdf backup"));
  CHECK(Says(OpenBackup(std::string(2 << 20, 'x'), "correct horse").status(),
             StatusCode::kInvalidArgument, "no gdf backup"));

  PosixFileSystem files;
  testing::TemporaryFolder folder;
  const std::string dir = folder.path() + "/state";
  CHECK_FALSE(RestoreBackup(files, *archive, "wrong horse", dir).ok());
  CHECK_FALSE(files.Exists(dir));
  const auto restored = RestoreBackup(files, *archive, "correct horse", dir);
  INFO(restored.status());
  REQUIRE(restored.ok());
  CHECK(restored->node == n1.member().id());
  CHECK(restored->network == "my-net");
  CHECK(restored->log_entries == loop.On([&] { return n1.member().state().last_applied(); }));
  CHECK((*state::State::Open(dir + "/state.db"))->StateDigest() ==
        loop.On([&] { return n1.member().state().StateDigest(); }));
  CHECK(files.Stat(dir + "/state.db")->mode == 0600);
  CHECK(trust::NodeKey::Load(files, dir + "/node.key")->id() == n1.member().id());
  CHECK(files.Stat(dir + "/node.key")->mode == 0600);
  CHECK(Says(RestoreBackup(files, *archive, "correct horse", dir).status(), StatusCode::kAlreadyExists,
             "node.key exists"));
  REQUIRE(files.Remove(dir + "/node.key").ok());
  CHECK(Says(RestoreBackup(files, *archive, "correct horse", dir).status(),
             StatusCode::kAlreadyExists, "state.db exists"));
}

TEST_CASE("A backup of a node in no network is its key") {
  LoopThread loop;
  ServiceNode n1(loop, 1);
  const auto archive = n1.Client()->Backup("correct horse");
  REQUIRE(archive.ok());
  PosixFileSystem files;
  testing::TemporaryFolder folder;
  const auto restored = RestoreBackup(files, *archive, "correct horse", folder.path());
  REQUIRE(restored.ok());
  CHECK(restored->network.empty());
  CHECK(files.Exists(folder.path() + "/node.key"));
  CHECK_FALSE((*state::State::Open(folder.path() + "/state.db"))->has_network());
}

}  // namespace
}  // namespace gdf::services
