// Who calls without being a member: garbage, silence and crowds.
#include <openssl/ssl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/net/net_harness.h"

namespace gdf::net {
namespace {

// Reads nothing for as long as it is let.
Task<void> Ignore(Executor* executor, std::unique_ptr<Stream> stream) {
  co_await Sleep(*executor, absl::Hours(1));
  stream->Finish();
}

TEST_CASE("net: garbage, old versions and impossible lengths end the connection with a reason") {
  TestNode b(2);
  const std::string hello = Bytes(HelloFrame({.incarnation = 7, .purpose = Purpose::kMain}));
  SECTION("garbage instead of TLS") {
    RawClient client(b.address());
    client.WritePlain("GET / HTTP/1.1\r\n\r\n");
    client.ReadUntilClosed();
    CHECK(client.closed());
  }
  SECTION("an old version") {
    RawClient client(b.address());
    REQUIRE(client.Secure(8));
    client.Write(Bytes(HelloFrame({.incarnation = 7, .purpose = Purpose::kMain}, 0)));
    const std::string reason = client.ReadUntilClosed();
    CHECK(reason.find("version 0") != std::string::npos);
    CHECK(reason.find("version 1") != std::string::npos);
    CHECK(client.closed());
  }
  SECTION("a 4 GiB length") {
    RawClient client(b.address());
    REQUIRE(client.Secure(8));
    client.Write(hello);
    client.Write(std::string("\xff\xff\xff\xff\x03\0\0\0\x01\0\0\0\0\0\0\0", 16));
    CHECK(client.ReadUntilClosed().find("4294967295") != std::string::npos);
    CHECK(client.closed());
  }
  SECTION("garbage instead of a record, and more than is read") {
    RawClient client(b.address());
    REQUIRE(client.Secure(8));
    client.Write(hello);
    client.WritePlain(std::string(100'000, 'x'));
    client.ReadUntilClosed();
    CHECK(client.closed());
    CHECK(client.alert() == SSL_AD_RECORD_OVERFLOW);  // "xx" as a length
  }
  SECTION("an unknown frame type") {
    RawClient client(b.address());
    REQUIRE(client.Secure(8));
    client.Write(hello);
    client.Write(std::string("\0\0\0\0\x63\0\0\0\x01\0\0\0\0\0\0\0", 16));
    CHECK(client.ReadUntilClosed().find("unknown frame type 99") != std::string::npos);
  }
  SECTION("data beyond the window") {
    b.ServeStream("hold", [e = &b.executor()](NodeId, std::unique_ptr<Stream> stream) {
      return Ignore(e, std::move(stream));
    });
    RawClient client(b.address());
    REQUIRE(client.Secure(8));
    client.Write(hello);
    client.Write(Bytes({FrameType::kOpen, 1, 0, Buffer("hold")}));
    const std::string mebibyte = Bytes({FrameType::kData, 1, 0, Filled(1 << 20, 'x')});
    client.Write(mebibyte);
    client.Write(mebibyte);
    CHECK(client.ReadUntilClosed().find("beyond the window") != std::string::npos);
  }
}

TEST_CASE("net: who does not finish the handshake is dropped, and does not lock others out") {
  TlsTransportOptions options = Loopback();
  options.handshake_timeout = absl::Milliseconds(300);
  options.max_half_open_per_address = 2;
  TestNode b(2, options);
  RawClient slow(b.address()), silent(b.address()), third(b.address());
  slow.WritePlain("\x16\x03\x01");
  third.ReadUntilClosed();
  CHECK(third.closed());
  slow.ReadUntilClosed();
  silent.ReadUntilClosed();
  CHECK(slow.closed());
  CHECK(silent.closed());
  TestNode a(1);
  a.Knows(b);
  b.Serve("echo", Echo);
  CHECK(a.Call(b.id(), "echo", Buffer("x")).ok());
}

TEST_CASE("net: a flood of connections that say nothing does not keep a member out") {
  TlsTransportOptions options = Loopback();
  options.handshake_timeout = absl::Minutes(10);  // none of them leaves by itself
  options.max_half_open = 16;
  options.max_half_open_per_address = 8;
  TestNode b(2, options);
  b.Serve("echo", Echo);
  std::vector<std::unique_ptr<RawClient>> flood;
  const auto from = [&](const std::string& address) {
    flood.push_back(std::make_unique<RawClient>(b.address(), address));
  };
  SECTION("from one address, which is the member's too") {
    for (int i = 0; i < 40; ++i) from("127.0.0.1");
  }
  SECTION("from many addresses") {
    for (int i = 0; i < 60; ++i) from("127.0.0." + std::to_string(2 + i % 30));
  }
  TestNode a(1);
  a.Knows(b);
  CHECK(a.Call(b.id(), "echo", Buffer("x")).ok());
  // What is held for all of them is bounded.
  const size_t most = flood.size() == 40 ? 8 : 16;
  b.Eventually([&] {
    const auto held = std::count_if(flood.begin(), flood.end(),
                                    [](const auto& client) { return !client->HungUp(); });
    return static_cast<size_t>(held) <= most;
  });
  // And again while the flood goes on.
  std::atomic<bool> enough = false;
  ThreadPool flooder(1);
  flooder.Submit([&] {
    for (int i = 0; !enough; ++i) close(ConnectTo(b.address(), "127.0.1." + std::to_string(1 + i % 9)));
  });
  for (int i = 0; i < 5; ++i) {
    TestNode c(3 + i);
    c.Knows(b);
    CHECK(c.Call(b.id(), "echo", Buffer("x")).ok());
  }
  enough = true;
}

TEST_CASE("net: those that are no members are few, in all and from one address") {
  TlsTransportOptions options = Loopback();
  options.max_strangers = 4;
  options.max_strangers_per_address = 2;
  const NodeId member = IdOf(1);
  TestNode b(2, options, [member](NodeId id) {
    return id == member ? Admission::kMember : Admission::kStranger;
  });
  b.Serve("echo", Echo);
  int next_key = 10;
  const auto visit = [&](const std::string& from) {
    auto client = std::make_unique<RawClient>(b.address(), from);
    REQUIRE(client->Secure(next_key));
    client->Write(Bytes(HelloFrame({.incarnation = 7, .purpose = Purpose::kMain})));
    return client;
  };
  const auto admitted = [&] {  // a key that b is connected with
    const NodeId id = IdOf(next_key++);
    b.Eventually([&] { return b.transport().Connected(id); });
  };
  const auto first = visit("127.0.0.2");
  admitted();
  auto second = visit("127.0.0.2");
  admitted();
  CHECK(visit("127.0.0.2")->ReadUntilClosed().find("connected from 127.0.0.2") !=
        std::string::npos);
  const auto third = visit("127.0.0.3");
  admitted();
  const auto fourth = visit("127.0.0.4");
  admitted();
  CHECK(visit("127.0.0.5")->ReadUntilClosed().find("too many") != std::string::npos);
  // A member is none of them.
  TestNode a(1);
  a.Knows(b);
  CHECK(a.Call(b.id(), "echo", Buffer("x")).ok());
  // Where one has gone another may come.
  second.reset();
  b.Eventually([&] { return b.transport().Peers().size() == 4; });
  const auto fifth = visit("127.0.0.5");
  admitted();
}

}  // namespace
}  // namespace gdf::net
