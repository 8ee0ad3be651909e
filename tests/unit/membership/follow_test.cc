#include "core/base/status_macros.h"
#include "core/membership/coordinator.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_network.h"

namespace gdf::membership {
namespace {

using absl::StatusCode;
using testing::LoopThread;
using testing::Says;
using testing::TestMember;
using trust::Role;

wire::JobEvent Note(const NodeId& node, std::string text) {
  return {JobId{}, node, wire::Severity::kInfo, std::move(text)};
}

TEST_CASE("A member that was away catches up, and takes up its part after a restart") {
  testing::TemporaryFolder folder;
  LoopThread loop;
  TestMember n1(loop, {.number = 1, .state_path = folder.path() + "/n1.db"});
  n1.Found();
  {
    TestMember n2(loop, {.number = 2, .state_path = folder.path() + "/n2.db"});
    n2.JoinAs(n1, {Role::kContributor});
  }
  for (int i = 0; i < 300; ++i)
    REQUIRE(n1.Do(Note(n1.id(), std::string(4000, 'x'))).ok());  // more than one message
  TestMember n2(loop, {.number = 2, .state_path = folder.path() + "/n2.db"});
  CHECK(n2.HasStateOf(n1));

  SECTION("after the coordinator's restart") {
    n1.Restart();
    REQUIRE(loop.Comes(
        [&] { return n2.membership().connected() && n1.membership().IsOnline(n2.id()); }));
    REQUIRE(n2.Do(Note(n2.id(), "here again")).ok());
    CHECK(n2.HasStateOf(n1));
  }
  SECTION("after its own") {
    n2.Restart();
    REQUIRE(n1.Do(Note(n1.id(), "still there?")).ok());
    CHECK(n2.Follows(n1));
  }
}

TEST_CASE("A proposal waits for a coordinator that comes back") {
  testing::TemporaryFolder folder;
  LoopThread loop;
  auto n1 = std::make_unique<TestMember>(
      loop, TestMember::Options{.number = 1, .state_path = folder.path() + "/n1.db"});
  TestMember n2(loop, 2);
  n1->Found();
  n2.JoinAs(*n1, {Role::kContributor});
  const std::string address = n1->address();
  n1.reset();
  auto asked = std::async(std::launch::async, [&] { return n2.Do(Note(n2.id(), "patience")); });
  REQUIRE(loop.Comes([&] { return !n2.membership().connected(); }));
  n1 = std::make_unique<TestMember>(
      loop,
      TestMember::Options{.number = 1, .state_path = folder.path() + "/n1.db", .listen = address});
  CHECK(asked.get().ok());
  CHECK(n2.HasStateOf(*n1));
}

TEST_CASE("A coordinator that comes back elsewhere finds its members, who do not know where") {
  testing::TemporaryFolder folder;
  LoopThread loop;
  const std::string path = folder.path() + "/n1.db";
  auto n1 = std::make_unique<TestMember>(
      loop, TestMember::Options{.number = 1, .state_path = path});
  TestMember n2(loop, 2);
  n1->Found();
  n2.JoinAs(*n1, {Role::kContributor});
  const std::string before = n1->address();
  n1.reset();
  TestMember stranger(loop, {.number = 3, .listen = before});
  n1 = std::make_unique<TestMember>(loop, TestMember::Options{.number = 1, .state_path = path});
  REQUIRE(n1->address() != before);
  CHECK(loop.Comes([&] { return n2.membership().connected(); }));
  CHECK(n2.Follows(*n1));
  CHECK(loop.On([&] { return n2.state().member(n1->id())->profile.addresses; }) ==
        std::vector<std::string>{n1->address()});
}

TEST_CASE("What a node offers from now on is told, also after it was away") {
  LoopThread loop;
  TestMember n1(loop, 1);
  TestMember n2(loop, 2);
  const auto offer = [&](TestMember& node, const std::string& gpu) {
    loop.On([&] {
      wire::NodeResources resources = node.membership().profile().resources;
      resources.gpus = {{gpu, 5}};
      node.membership().SetResources(std::move(resources));
    });
  };
  const auto offers = [&](TestMember& node, const std::string& gpu) {
    return loop.Comes([&] {
      const absl::StatusOr<state::Member> member = n1.state().member(node.id());
      return member.ok() &&
             member->profile.resources.gpus == std::vector<wire::GpuResource>{{gpu, 5}};
    });
  };
  n1.Found();
  offer(n2, "before joining");
  n2.JoinAs(n1, {Role::kContributor});
  CHECK(offers(n2, "before joining"));
  offer(n2, "after");
  CHECK(offers(n2, "after"));
  offer(n1, "the coordinator's");
  CHECK(offers(n1, "the coordinator's"));
  CHECK(offers(n2, "after"));
}

TEST_CASE("Without a coordinator a proposal ends at its time and says so") {
  LoopThread loop;
  auto n1 = std::make_unique<TestMember>(loop, 1);
  TestMember n2(loop, 2);
  n1->Found();
  n2.JoinAs(*n1, {Role::kContributor});
  n1.reset();
  const auto result = loop.Await<absl::StatusOr<wire::CommandResult>>(
      [&] { return n2.membership().Propose(Note(n2.id(), "anybody?"), absl::Milliseconds(600)); });
  CHECK(result.status().code() == StatusCode::kUnavailable);
  CHECK_FALSE(loop.On([&] { return n2.membership().connected(); }));
  CHECK(loop.On([&] { return n2.membership().Online().empty(); }));
  CHECK_FALSE(loop.On([&] { return n2.membership().last_error().ok(); }));
}

TEST_CASE("A coordinator that fell behind its members is not followed") {
  testing::TemporaryFolder folder;
  PosixFileSystem files;
  LoopThread loop;
  const std::string path = folder.path() + "/n1.db";
  const std::string old = folder.path() + "/old.db";
  TestMember n2(loop, 2);
  std::string address;
  {
    TestMember n1(loop, {.number = 1, .state_path = path});
    n1.Found();
    n2.JoinAs(n1, {Role::kContributor});
    address = n1.address();
  }
  REQUIRE(files.WriteAtomic(old, *files.Read(path)).ok());
  const uint64_t at_copy = n2.applied();
  {
    TestMember n1(loop, {.number = 1, .state_path = path, .listen = address});
    REQUIRE(n1.Do(Note(n1.id(), "lost with the disk")).ok());
    REQUIRE(n2.Follows(n1));
  }
  TestMember restored(loop, {.number = 1, .state_path = old, .listen = address});
  REQUIRE(restored.applied() == at_copy);
  const auto error = [&] { return n2.membership().last_error(); };
  CHECK(loop.Comes([&] { return error().code() == StatusCode::kDataLoss; }));
  CHECK(Says(loop.On(error), StatusCode::kDataLoss, "rolled back"));
  const auto ahead = [&] { return restored.membership().FurthestAhead(); };
  REQUIRE(loop.On(ahead).has_value());
  CHECK(loop.On(ahead)->node == n2.id());
  CHECK(loop.On(ahead)->entries == n2.applied());
  CHECK(loop.On(ahead)->here == at_copy);

  // Its log grows differently: as many entries as the member has, but not the same ones.
  REQUIRE(restored.Do(Note(restored.id(), "a different one")).ok());
  const uint64_t forked = restored.applied();
  REQUIRE(n2.applied() == forked);
  const std::string expected = "not the same up to entry " + std::to_string(forked);
  CHECK(loop.Comes(
      [&] { return std::string(error().message()).find(expected) != std::string::npos; }));
  REQUIRE(restored.Do(Note(restored.id(), "and one more")).ok());
  CHECK(Says(loop.On(error), StatusCode::kDataLoss, expected));
  CHECK(n2.applied() == forked);  // nothing of it was applied
  CHECK(loop.On(ahead).has_value());
  CHECK_FALSE(loop.On([&] { return n2.membership().connected(); }));
}

TEST_CASE("A member's copy of the state brings a lost coordinator back") {
  testing::TemporaryFolder folder;
  PosixFileSystem files;
  LoopThread loop;
  std::string address;
  NetworkId network;
  {
    TestMember n1(loop, {.number = 1, .state_path = folder.path() + "/n1.db"});
    TestMember n2(loop, {.number = 2, .state_path = folder.path() + "/n2.db"});
    n1.Found();
    n2.JoinAs(n1, {Role::kContributor});
    REQUIRE(n2.Follows(n1));
    address = n1.address();
    network = loop.On([&] { return n1.state().network()->id; });
  }
  REQUIRE(
      files.WriteAtomic(folder.path() + "/copy.db", *files.Read(folder.path() + "/n2.db")).ok());
  TestMember n1(loop, {.number = 1, .state_path = folder.path() + "/copy.db", .listen = address});
  TestMember n2(loop, {.number = 2, .state_path = folder.path() + "/n2.db"});
  CHECK(loop.On(
      [&] { return n1.membership().coordinator() && n1.state().network()->id == network; }));
  REQUIRE(n1.Do(Note(n1.id(), "alive")).ok());
  CHECK(n2.Follows(n1));
}

// A coordinator and a member, in files, and the coordinator's key replaced while the member is away.
struct Rotated {
  LoopThread loop;
  testing::TemporaryFolder folder;
  const trust::NodeKey next = TestMember::KeyOf(11);
  const trust::NodeKey last = TestMember::KeyOf(12);
  NetworkId network;
  std::string address;
  uint64_t at_parting = 0;

  Rotated() {
    TestMember n1(loop, {.number = 1, .state_path = Path("n1")});
    n1.Found();
    address = n1.address();
    network = loop.On([&] { return n1.state().network()->id; });
    {
      TestMember n2(loop, {.number = 2, .state_path = Path("n2")});
      n2.JoinAs(n1, {Role::kContributor});
      REQUIRE(n2.Follows(n1));
      at_parting = n2.applied();
    }
    REQUIRE(n1.Do(Note(n1.id(), "meanwhile")).ok());
    REQUIRE(n1.Do(Rotation(n1.key(), next)).ok());
  }
  std::string Path(const std::string& name) const { return folder.path() + "/" + name + ".db"; }
  wire::RotateKey Rotation(const trust::NodeKey& from, const trust::NodeKey& to) const {
    return {trust::KeyRotation::Make(network, from, to, 1'700'000'000'000)};
  }
  TestMember::Options Coordinator(int number) const {
    return {.number = number, .name = "n1", .state_path = Path("n1"), .listen = address};
  }
};

TEST_CASE("A member that was away while its coordinator replaced its key follows the new one") {
  Rotated world;
  LoopThread& loop = world.loop;
  auto n1 = std::make_unique<TestMember>(loop, world.Coordinator(11));
  SECTION("once") {}
  SECTION("twice") {
    REQUIRE(n1->Do(world.Rotation(n1->key(), world.last)).ok());
    n1.reset();
    n1 = std::make_unique<TestMember>(loop, world.Coordinator(12));
  }
  TestMember n2(loop, {.number = 2, .state_path = world.Path("n2")});
  CHECK(n2.Follows(*n1));
  CHECK(loop.Comes(
      [&] { return n2.membership().connected() && n1->membership().IsOnline(n2.id()); }));
  REQUIRE(n2.Do(Note(n2.id(), "here again")).ok());
  CHECK(n2.HasStateOf(*n1));
}

// Serves `entries` as a coordinator's log, whoever asks.
Task<void> ServeLog(std::vector<wire::LogEntryBytes> entries, int* served,
                    std::unique_ptr<net::Stream> stream) {
  auto request = co_await stream->Receive();
  if (!request.ok()) co_return;
  wire::WatchUpdate update;
  update.entries = std::move(entries);
  const absl::Status sent = co_await stream->Send(Buffer(wire::Encode(update)));
  if (sent.ok()) stream->Finish();
  ++*served;
}

TEST_CASE("Whoever answers at a coordinator's address without its successor's key is not followed") {
  Rotated world;
  LoopThread& loop = world.loop;
  const trust::NodeKey coordinator = TestMember::KeyOf(1), thief = TestMember::KeyOf(66);
  wire::Command command;
  SECTION("it has no proof") { command.body = Note(thief.id(), "trust me"); }
  SECTION("it has signed itself") { command.body = world.Rotation(thief, thief); }
  SECTION("the old key has signed another") {
    command.body = world.Rotation(coordinator, world.next);
  }
  SECTION("the old key has signed it for another network") {
    const NetworkId other(HashBytes("another network"));
    command.body =
        wire::RotateKey{trust::KeyRotation::Make(other, coordinator, thief, 1'700'000'000'000)};
  }
  SECTION("a signature was changed") {
    std::string record = world.Rotation(coordinator, thief).record;
    record[record.size() - 100] = static_cast<char>(record[record.size() - 100] ^ 1);
    command.body = wire::RotateKey{record};
  }
  command.actor = coordinator.id();
  net::TlsTransportOptions options;
  options.listen = {world.address};
  int served = 0;
  std::unique_ptr<net::TlsTransport> impostor;
  net::Registration serving;
  loop.On([&] {
    impostor = *net::TlsTransport::Start(loop.executor(), thief.private_seed(), options);
    impostor->SetAdmission([](NodeId) { return net::Admission::kMember; });
    serving = impostor->HandleStream(
        "membership.watch",
        [&, bytes = wire::EncodeCommand(command)](NodeId, std::unique_ptr<net::Stream> stream) {
          return ServeLog({{world.at_parting + 1, bytes}}, &served, std::move(stream));
        },
        {});
  });
  TestMember n2(loop, {.number = 2, .state_path = world.Path("n2")});
  CHECK(loop.Comes([&] { return served >= 2; }));  // it was asked, refused, and asked again
  CHECK(n2.applied() == world.at_parting);
  CHECK_FALSE(loop.On([&] { return n2.membership().connected(); }));
  loop.On([&] {
    serving.Reset();
    impostor.reset();
  });
}

Task<absl::StatusOr<std::shared_ptr<net::Stream>>> OpenWatch(net::Transport& transport, NodeId to) {
  GDF_CO_ASSIGN_OR_RETURN(std::unique_ptr<net::Stream> stream,
                          co_await transport.Open(to, "membership.watch", net::Priority::kControl,
                                                  testing::kSoon));
  Buffer call(wire::Encode(wire::WatchCall{1}));
  GDF_CO_RETURN_IF_ERROR(co_await stream->Send(std::move(call)));
  absl::StatusOr<std::optional<Buffer>> update = co_await stream->Receive(testing::kSoon);
  GDF_CO_RETURN_IF_ERROR(update.status());
  co_return std::shared_ptr<net::Stream>(std::move(stream));
}

Task<absl::Status> EndOf(std::shared_ptr<net::Stream> stream) {
  while (true) {
    absl::StatusOr<std::optional<Buffer>> update = co_await stream->Receive(testing::kSoon);
    GDF_CO_RETURN_IF_ERROR(update.status());
    if (!update->has_value()) co_return absl::OkStatus();
  }
}

TEST_CASE("A node that comes back quickly, often, is served: its newest watch takes the oldest's place") {
  LoopThread loop;
  TestMember n1(loop, 1);
  TestMember n2(loop, 2);
  n1.Found();
  n2.JoinAs(n1, {Role::kContributor});
  std::vector<std::shared_ptr<net::Stream>> watches;  // that it does not know to be lost
  for (int i = 0; i < 50; ++i) {
    const auto watch = loop.Await<absl::StatusOr<std::shared_ptr<net::Stream>>>(
        [&] { return OpenWatch(n2.transport(), n1.id()); });
    INFO(i << ": " << watch.status());
    REQUIRE(watch.ok());
    watches.push_back(*watch);
  }
  const absl::Status first =
      loop.Await<absl::Status>([&] { return EndOf(watches[0]); });
  CHECK(Says(first, StatusCode::kAborted, "a newer watch"));
  loop.On([&] { watches.clear(); });
  CHECK(loop.Comes([&] { return n2.membership().connected(); }));
}

TEST_CASE("The same request is recorded once, also across a coordinator's restart") {
  testing::TemporaryFolder folder;
  LoopThread loop;
  TestMember n1(loop, {.number = 1, .state_path = folder.path() + "/n1.db"});
  TestMember n2(loop, 2);
  n1.Found();
  n2.JoinAs(n1, {Role::kSubmitter});
  wire::Command command;
  command.request[0] = 42;
  command.actor = n2.id();
  command.body = wire::SubmitJob{"job", "token", "name: job\n", {}, 40};
  const auto send = [&] {
    const auto reply = loop.Await<absl::StatusOr<Buffer>>([&] {
      return n2.transport().Call(n1.id(), "membership.propose",
                                 Buffer(wire::EncodeCommand(command)), testing::kSoon);
    });
    INFO(reply.status());
    REQUIRE(reply.ok());
    return *wire::DecodeCommandResult(reply->view());
  };
  const wire::CommandResult first = send();
  REQUIRE(first.status.ok());
  const uint64_t entries = n1.applied();
  CHECK(send() == first);
  CHECK(n1.applied() == entries);
  n1.Restart();
  CHECK(send() == first);
  CHECK(n1.applied() == entries);

  // Another request with the same submit token gets the same job.
  command.request[0] = 43;
  CHECK(send().job == first.job);
  CHECK(loop.On([&] { return n1.state().jobs()->size(); }) == 1);
}

TEST_CASE("A peer cannot act for another, nor join with another's key") {
  LoopThread loop;
  TestMember n1(loop, 1), n2(loop, 2), n3(loop, 3);
  n1.Found();
  n2.JoinAs(n1, {Role::kContributor});
  wire::Command command;
  command.actor = n1.id();  // an admin
  command.body = wire::BanNode{n1.id(), ""};
  const auto call = [&](TestMember& from, const char* method, std::string bytes) {
    loop.On([&] { from.transport().SetAddresses(n1.id(), {n1.address()}); });
    return loop.Await<absl::StatusOr<Buffer>>(
        [&] { return from.transport().Call(n1.id(), method, Buffer(bytes), testing::kSoon); });
  };
  const auto reply = call(n2, "membership.propose", wire::EncodeCommand(command));
  REQUIRE(reply.ok());
  CHECK(Says(wire::DecodeCommandResult(reply->view())->status, StatusCode::kPermissionDenied,
             "admin"));

  const trust::Invite invite = n1.MakeInvite({Role::kAdmin});
  loop.On([&] { n3.transport().SetAdmission([](NodeId) { return net::Admission::kMember; }); });
  command.body =
      wire::Join{invite.network, invite.id, trust::InviteSecretHash(invite.id, invite.secret),
                 TestMember::KeyOf(5).public_key(), n3.Profile()};
  CHECK(Says(call(n3, "membership.join",
                  wire::Encode(wire::JoinCall{invite.network, wire::EncodeCommand(command)}))
                 .status(),
             StatusCode::kPermissionDenied, "not the one this connection was made with"));
  command.body = wire::BanNode{n2.id(), ""};
  CHECK(Says(call(n3, "membership.join",
                  wire::Encode(wire::JoinCall{invite.network, wire::EncodeCommand(command)}))
                 .status(),
             StatusCode::kInvalidArgument, "join command"));
  CHECK(call(n3, "membership.join", "garbage").status().code() == StatusCode::kInvalidArgument);
  CHECK(Says(call(n3, "membership.propose", wire::EncodeCommand(command)).status(),
             StatusCode::kPermissionDenied, "not a member"));
  CHECK(Says(call(n3, "membership.watch", wire::Encode(wire::WatchCall{1})).status(),
             StatusCode::kPermissionDenied, "not a member"));
}

}  // namespace
}  // namespace gdf::membership
