// Circuits: two nodes that cannot reach each other, and the member between them.
#include "core/net/relay.h"

#include <unistd.h>

#include <string>
#include <vector>

#include "core/base/byte_io.h"
#include "tests/unit/net/net_harness.h"

namespace gdf::net {
namespace {

TlsTransportOptions Relaying(uint64_t bytes_per_sec = 0) {
  TlsTransportOptions options = Loopback();
  options.relay_bytes_per_sec = bytes_per_sec;
  return options;
}

// So many messages of a MiB, no two neighbours alike.
std::vector<Buffer> Megabytes(size_t count) {
  std::vector<Buffer> messages;
  for (size_t i = 0; i < count; ++i) messages.push_back(Filled(1 << 20, static_cast<char>('a' + i % 26)));
  return messages;
}

// As the relay's methods take it.
Buffer RawId(const TestNode& node) { return Buffer(ByteWriter().Bytes(node.id().digest().bytes).Take()); }

std::optional<PeerPath> PathTo(TestNode& from, TestNode& to) {
  return from.On([&] { return from.transport().path(to.id()); });
}

// `node` is connected with the relay, and knows that it is one.
void Attach(TestNode& node, TestNode& relay) {
  node.Knows(relay);
  node.On([&] { node.transport().SetRelays({relay.id()}); });
  REQUIRE(node.Call(relay.id(), "echo", Buffer("hi")).ok());
}

// a and b know the relay's address only.
struct Three {
  explicit Three(TlsTransportOptions relay_options = Relaying(), TlsTransportOptions ends = Loopback())
      : relay(3, std::move(relay_options)), a(1, ends), b(2, ends) {
    for (TestNode* node : {&relay, &a, &b}) {
      node->Serve("echo", Echo);
      node->ServeStream("mirror", EchoStream);
    }
    Attach(a, relay);
    Attach(b, relay);
  }
  TestNode relay, a, b;
};

TEST_CASE("net: nodes that do not know where the other is talk through a relay") {
  Three three;
  REQUIRE(three.a.Call(three.b.id(), "echo", Buffer("hi"))->view() == "hi");
  REQUIRE(three.b.Call(three.a.id(), "echo", Buffer("ho"))->view() == "ho");
  for (const auto& [from, to] : {std::pair(&three.a, &three.b), std::pair(&three.b, &three.a)}) {
    const std::optional<PeerPath> path = PathTo(*from, *to);
    REQUIRE(path);
    CHECK(path->via == three.relay.id());
    CHECK(path->dialled == (from == &three.a));
    CHECK_FALSE(PathTo(*from, three.relay)->via);
  }
  // Bulk data, whichever opens the stream: on connections of its own, through the same relay.
  for (const auto& [from, to] : {std::pair(&three.a, &three.b), std::pair(&three.b, &three.a)}) {
    CHECK(from->Await<absl::Status>([&, from = from, to = to] { return Reflect(&from->transport(), to->id(), Megabytes(8)); }) == absl::OkStatus());
  }
  CHECK(PathTo(three.a, three.b)->connections >= 2);
}

TEST_CASE("net: what goes through a relay stays within TLS, whatever networks its ends trust") {
  TlsTransportOptions trusting = Loopback();
  trusting.clear_networks = {"0.0.0.0/0"};
  Three three(Relaying(), trusting);
  CHECK(three.a.Await<absl::Status>([&] { return Reflect(&three.a.transport(), three.b.id(), Megabytes(1)); }) == absl::OkStatus());
  CHECK_FALSE(PathTo(three.a, three.b)->clear);
  CHECK_FALSE(PathTo(three.b, three.a)->clear);
}

TEST_CASE("net: a relay is asked for what it can give only, and says why not") {
  SECTION("one whose owner does not lend it") {
    Three three(Loopback());
    CHECK(Text(three.a.Call(three.b.id(), "echo", Buffer()).status()).find("is no relay") != std::string::npos);
  }
  SECTION("a node that is not connected with it") {
    Three three;
    const absl::Status refused = three.a.Call(IdOf(9), "echo", Buffer()).status();
    CHECK(absl::IsUnavailable(refused));
    CHECK(Text(refused).find("is not connected with it") != std::string::npos);
  }
  SECTION("a callee for whom it is no relay") {
    Three three;
    three.b.On([&] { three.b.transport().SetRelays({}); });
    CHECK(Text(three.a.Call(three.b.id(), "echo", Buffer()).status()).find("is no relay of this network") != std::string::npos);
  }
  SECTION("itself, and what is no node") {
    Three three;
    CHECK(absl::IsPermissionDenied(three.a.Call(three.relay.id(), "net.relay", RawId(three.a)).status()));
    CHECK(absl::IsInvalidArgument(three.a.Call(three.relay.id(), "net.relay", Buffer("short")).status()));
    CHECK(absl::IsInvalidArgument(three.a.Call(three.b.id(), "net.relay.offer", Buffer("short")).status()));
  }
}

TEST_CASE("net: a peer whose address does not answer is reached by a relay, and directly once it does") {
  TlsTransportOptions soon = Loopback();
  soon.idle_stripe = absl::Milliseconds(200);  // so often a direct path is looked for
  Three three(Relaying(), soon);
  std::string nobody;
  {
    TestNode gone(8);
    nobody = gone.address();
  }
  three.a.On([&] { three.a.transport().SetAddresses(three.b.id(), {nobody}); });
  REQUIRE(three.a.Call(three.b.id(), "echo", Buffer("hi")).ok());
  CHECK(PathTo(three.a, three.b)->via == three.relay.id());
  three.a.Knows(three.b);
  three.a.Eventually([&] {
    const std::optional<PeerPath> path = three.a.transport().path(three.b.id());
    return path && !path->via && path->connections == 1;  // the one by the relay is left
  });
  REQUIRE(three.a.Call(three.b.id(), "echo", Buffer("hi")).ok());
  REQUIRE(three.b.Call(three.a.id(), "echo", Buffer("hi")).ok());
  CHECK_FALSE(PathTo(three.b, three.a)->via);
}

TEST_CASE("net: a relay is used while an address keeps silent") {
  Three three;
  uint16_t port = 0;
  const int silent = ListenUnheard(&port);
  const std::string where = "127.0.0.1:" + std::to_string(port);
  three.a.On([&] { three.a.transport().SetAddresses(three.b.id(), {where}); });
  CHECK(three.a.Call(three.b.id(), "echo", Buffer("hi"), absl::Seconds(8)).ok());
  close(silent);
}

TEST_CASE("net: what a relay held goes with it, and another takes its place") {
  auto three = std::make_unique<Three>();
  REQUIRE(three->a.Call(three->b.id(), "echo", Buffer("hi")).ok());
  TestNode other(4, Relaying());
  other.Serve("echo", Echo);
  for (TestNode* node : {&three->a, &three->b}) {
    node->Knows(other);
    REQUIRE(node->Call(other.id(), "echo", Buffer("hi")).ok());
    node->On([&] { node->transport().SetRelays({three->relay.id(), other.id()}); });
  }
  three->relay.On([&] { three->relay.transport().SetAdmission([](NodeId) { return Admission::kRefused; }); });
  three->relay.On([&] { three->relay.transport().RecheckAdmission(); });
  three->a.Eventually([&] { return !three->a.transport().Connected(three->b.id()); });
  REQUIRE(three->a.Call(three->b.id(), "echo", Buffer("hi")).ok());
  CHECK(PathTo(three->a, three->b)->via == other.id());
}

TEST_CASE("net: a relay ends the circuits of who is a member no longer") {
  auto banned = std::make_shared<std::atomic<bool>>(false);
  TestNode relay(3, Relaying(), [banned](NodeId peer) {
    return peer == IdOf(2) && *banned ? Admission::kStranger : Admission::kMember;
  });
  TestNode a(1), b(2);
  for (TestNode* node : {&relay, &a, &b}) node->Serve("echo", Echo, {.open_to_strangers = true});
  Attach(a, relay);
  Attach(b, relay);
  REQUIRE(a.Call(b.id(), "echo", Buffer("hi")).ok());
  *banned = true;
  relay.On([&] { relay.transport().RecheckAdmission(); });
  a.Eventually([&] { return !a.transport().Connected(b.id()); });
  CHECK(absl::IsUnavailable(a.Call(b.id(), "echo", Buffer("hi")).status()) );
}

TEST_CASE("net: a relay passes on no more than its owner lends") {
  constexpr size_t kRate = size_t{4} << 20, kMessages = 3;
  Three three(Relaying(kRate));
  REQUIRE(three.a.Call(three.b.id(), "echo", Buffer("hi")).ok());
  SystemClock clock;
  const absl::Duration start = clock.Monotonic();
  CHECK(three.a.Await<absl::Status>([&] { return Reflect(&three.a.transport(), three.b.id(), Megabytes(kMessages)); }) == absl::OkStatus());
  // Both ways count; a twentieth of a second's worth may go at once, and what is read at a time.
  const double bytes = 2.0 * kMessages * (1 << 20) - 0.05 * kRate - 4 * (64 << 10);
  CHECK(absl::ToDoubleSeconds(clock.Monotonic() - start) >= bytes / kRate);
}

TEST_CASE("net: circuits that nobody enters are forgotten, and one node gets so many only") {
  TlsTransportOptions brief = Relaying();
  brief.handshake_timeout = absl::Seconds(2);
  Three three(brief);
  const Buffer callee = RawId(three.b);
  const auto ask = [&] { return three.a.Call(three.relay.id(), "net.relay", callee).status(); };
  absl::Status last;
  for (int i = 0; i < 33 && last.ok(); ++i) last = ask();
  CHECK(absl::IsResourceExhausted(last));
  REQUIRE(three.a.Await<absl::Status>([&]() -> Task<absl::Status> {
    return [](std::function<Task<absl::StatusOr<Buffer>>()> again, Executor* executor) -> Task<absl::Status> {
      for (int i = 0; i < 100; ++i) {
        const absl::StatusOr<Buffer> answer = co_await again();
        if (answer.ok()) co_return absl::OkStatus();
        co_await Sleep(*executor, absl::Milliseconds(100));
      }
      co_return absl::DeadlineExceededError("never forgotten");
    }([&] { return three.a.transport().Call(three.relay.id(), "net.relay", callee, kSoon); }, &three.a.executor());
  }) == absl::OkStatus());
}

TEST_CASE("net: who enters a circuit of others, or talks nonsense through one, is cut off") {
  Three three;
  REQUIRE(three.a.Call(three.b.id(), "echo", Buffer("hi")).ok());
  SECTION("a number that is nobody's") {
    RawClient client(three.relay.address());
    REQUIRE(client.Secure(5));
    client.Write(Bytes(HelloFrame({7, Purpose::kCircuit, true, 12345})));
    CHECK(client.ReadUntilClosed().find("there is no such circuit") != std::string::npos);
  }
  SECTION("nonsense in a circuit of one's own") {
    const Buffer callee = RawId(three.b);
    const absl::StatusOr<Buffer> number = three.a.Call(three.relay.id(), "net.relay", callee);
    REQUIRE(number.ok());
    const uint64_t circuit = ByteReader(number->view()).U64();
    RawClient client(three.relay.address());
    REQUIRE(client.Secure(1));
    client.Write(Bytes(HelloFrame({7, Purpose::kCircuit, true, circuit})));
    client.WritePlain(std::string(4096, 'x'));
    client.ReadUntilClosed();
    CHECK(client.closed());
  }
  CHECK(three.a.Call(three.b.id(), "echo", Buffer("hi")).ok());
}

}  // namespace
}  // namespace gdf::net
