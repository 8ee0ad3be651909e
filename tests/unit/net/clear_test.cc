// Bulk connections that leave TLS after the hello.
#include <string>
#include <vector>

#include "core/net/endpoint.h"
#include "tests/unit/net/net_harness.h"

namespace gdf::net {
namespace {

using Texts = std::vector<std::string>;

TlsTransportOptions Trusting(Texts networks) {
  TlsTransportOptions options = Loopback();
  options.clear_networks = std::move(networks);
  return options;
}

struct Outcome {
  bool clear_here, clear_there;
  double overhead;  // bytes that the kernel sent over those of the messages, less 1
};

// Of two nodes whose owners trust these networks; whichever dials the bulk connection.
Outcome Exchanged(const Texts& here, const Texts& there, bool other_way = false) {
  TestNode a(1, Trusting(here)), b(2, Trusting(there));
  TestNode& dialler = other_way ? b : a;
  TestNode& accepter = other_way ? a : b;
  dialler.Knows(accepter);
  a.Serve("echo", Echo);
  b.Serve("echo", Echo);
  b.ServeStream("mirror", EchoStream);
  REQUIRE(dialler.Call(accepter.id(), "echo", Buffer("hi")).ok());
  std::vector<Buffer> messages;
  size_t bytes = 0;
  for (const size_t size : {0, 1, 17, 16 << 10, (16 << 10) - 16, 100'000, 1 << 20, 1 << 20, 1 << 20, 1 << 20}) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + size);
    messages.emplace_back(std::move(text));
    bytes += size;
  }
  REQUIRE(a.Await<absl::Status>([&] { return Reflect(&a.transport(), b.id(), messages); }) == absl::OkStatus());
  const auto clear = [](TestNode& node, TestNode& peer) {
    return node.On([&] { return node.transport().path(peer.id()); })->clear;
  };
  const double sent = static_cast<double>(a.On([&] { return a.transport().counters(b.id()).bytes_sent; }));
  return {clear(a, b), clear(b, a), sent / static_cast<double>(bytes) - 1};
}

TEST_CASE("net: bulk leaves TLS only where both owners trust the network between them") {
  constexpr double kRecords = 22.0 / (16 << 10);  // what TLS 1.3 adds to each 16 KiB
  constexpr double kRest = 0.0009;                // handshakes, frames' headers, credit
  const Texts loopback = {"10.0.0.0/8", "127.0.0.0/8"}, elsewhere = {"10.0.0.0/8", "fd00::/8"};
  for (const bool other_way : {false, true}) {
    CAPTURE(other_way);
    const Outcome clear = Exchanged(loopback, loopback, other_way);
    CHECK(clear.clear_here);
    CHECK(clear.clear_there);
    CHECK(clear.overhead < kRest);
    for (const auto& [here, there] : {std::pair(loopback, elsewhere), std::pair(elsewhere, loopback), std::pair(loopback, Texts{}), std::pair(Texts{}, Texts{})}) {
      const Outcome secret = Exchanged(here, there, other_way);
      CHECK_FALSE(secret.clear_here);
      CHECK_FALSE(secret.clear_there);
      CHECK(secret.overhead > kRecords);
    }
  }
}

TEST_CASE("net: a node that is asked for clear bulk without its owner's trust, or for control, answers within TLS") {
  for (const bool trusting : {false, true}) {
    TestNode node(1, trusting ? Trusting({"127.0.0.0/8"}) : Loopback());
    RawClient client(node.address());
    REQUIRE(client.Secure(2));
    client.Write(Bytes(HelloFrame({7, trusting ? Purpose::kMain : Purpose::kStripe, true})));
    // Read as TLS, like the answer to it: a second hello ends the connection.
    client.Write(Bytes(HelloFrame({7, Purpose::kMain, true})));
    CHECK(client.ReadUntilClosed().find("a second hello") != std::string::npos);
  }
}

TEST_CASE("net: networks are read and hold their addresses") {
  const auto networks = Networks::Parse({"10.1.0.0/16", "192.0.2.7/32", "fd00:12::/32"});
  REQUIRE(networks.ok());
  const auto holds = [&](const char* text) { return networks->Contain(asio::ip::make_address(text)); };
  CHECK(holds("10.1.255.1"));
  CHECK(holds("::ffff:10.1.2.3"));  // as a socket of both families has it
  CHECK_FALSE(holds("10.2.0.0"));
  CHECK(holds("192.0.2.7"));
  CHECK_FALSE(holds("192.0.2.6"));
  CHECK(holds("fd00:12::1"));
  CHECK_FALSE(holds("fd00:13::1"));
  CHECK_FALSE(holds("::1"));
  CHECK(Networks::Parse({"0.0.0.0/0"})->Contain(asio::ip::make_address("203.0.113.9")));
  CHECK_FALSE(Networks::Parse({"0.0.0.0/0"})->Contain(asio::ip::make_address("2001:db8::1")));
  CHECK_FALSE(Networks::Parse({})->Contain(asio::ip::make_address("127.0.0.1")));
  for (const char* bad : {"", "10.0.0.0", "10.0.0.0/33", "10.0.0/8", "fd00::/129", "fd00::", "example.org/8", "10.0.0.0/-1", "10.0.0.0/8x"}) {
    CAPTURE(bad);
    const absl::Status refused = Networks::Parse({bad}).status();
    CHECK(absl::IsInvalidArgument(refused));
    CHECK(std::string(refused.message()).find("is no network: expected ADDRESS/BITS") != std::string::npos);
  }
}

}  // namespace
}  // namespace gdf::net
