// Who is connected with whom: dialling, admission, and ends.
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/net/net_harness.h"

namespace gdf::net {
namespace {

TEST_CASE("net: the end of an old connection, said twice, leaves the new one alone") {
  TestNode a(1), b(2);
  a.Knows(b);
  b.Serve("echo", Echo);
  REQUIRE(a.Call(b.id(), "echo", Buffer("x")).ok());
  auto downs = std::make_shared<int>(0);
  Registration watch = a.On([&] {
    return a.transport().WatchPeers(
        [downs](NodeId, bool up, const absl::Status&) { *downs += up ? 0 : 1; });
  });
  constexpr int kTimes = 30;  // the new socket has the old one's number
  for (int i = 0; i < kTimes; ++i) {
    a.On([&] {
      for (int twice = 0; twice < 2; ++twice) {
        a.transport().Disconnect(b.id(), absl::UnavailableError("closed"));
      }
    });
    REQUIRE(a.Call(b.id(), "echo", Buffer("x")).ok());
    b.Eventually(
        [&] { return b.transport().ConnectionCount(a.id()) == 1; });  // it has heard of the end
    REQUIRE(a.Call(b.id(), "echo", Buffer("x")).ok());
  }
  CHECK(a.On([&] { return *downs; }) == kTimes);
  a.On([&] { watch.Reset(); });
}

TEST_CASE("net: a wrong key is refused and both ids are named") {
  TestNode a(1), b(2);
  a.On([&] { a.transport().SetAddresses(IdOf(9), {b.address()}); });
  const absl::Status status = a.Call(IdOf(9), "echo", Buffer()).status();
  CHECK(absl::IsUnavailable(status));
  CHECK(Text(status).find(IdOf(9).ToString()) != std::string::npos);
  CHECK(Text(status).find(b.id().ToString()) != std::string::npos);
}

TEST_CASE(
    "net: that nobody listens at a peer's addresses is known after a dial, until it connects") {
  TestNode a(1);
  auto b = std::make_unique<TestNode>(2);
  const NodeId id = b->id();
  const std::string address = b->address();
  const auto nobody = [&] { return a.On([&] { return a.transport().NobodyListens(id); }); };
  a.Knows(*b);
  b->Serve("echo", Echo);
  CHECK(a.Call(id, "echo", Buffer("x")).ok());
  CHECK_FALSE(nobody());
  b.reset();
  CHECK(absl::IsUnavailable(a.Call(id, "echo", Buffer("x")).status()));
  CHECK(absl::IsUnavailable(a.Call(id, "echo", Buffer("x")).status()));
  CHECK(nobody());
  // Another program at one of the addresses says nothing of the peer.
  TestNode c(3);
  a.On([&] { a.transport().SetAddresses(id, {address, c.address()}); });
  CHECK(absl::IsUnavailable(a.Call(id, "echo", Buffer("x")).status()));
  CHECK_FALSE(nobody());
  a.On([&] { a.transport().SetAddresses(id, {address}); });
  CHECK(absl::IsUnavailable(a.Call(id, "echo", Buffer("x")).status()));
  CHECK(nobody());
  TestNode again(2);
  again.Knows(a);
  a.Serve("echo", Echo);
  CHECK(again.Call(a.id(), "echo", Buffer("x")).ok());
  CHECK_FALSE(nobody());
}

TEST_CASE("net: strangers reach open methods only; refused nodes nothing") {
  auto policy = [](NodeId id) {
    return id == IdOf(3) ? Admission::kRefused : Admission::kStranger;
  };
  TestNode a(1), b(2, Loopback(), policy), c(3);
  a.Knows(b);
  c.Knows(b);
  b.Serve("join", Echo, {.open_to_strangers = true});
  b.Serve("secret", Echo);
  CHECK(a.Call(b.id(), "join", Buffer("x")).ok());
  CHECK(absl::IsPermissionDenied(a.Call(b.id(), "secret", Buffer("x")).status()));
  CHECK(absl::IsPermissionDenied(a.Call(b.id(), "unknown", Buffer("x")).status()));
  const absl::Status refused = c.Call(b.id(), "join", Buffer("x")).status();
  CHECK(absl::IsPermissionDenied(refused));
}

TEST_CASE("net: a ban cuts connections and streams at once") {
  auto banned = std::make_shared<std::atomic<bool>>(false);
  TestNode a(1), b(2, Loopback(),
                   [banned](NodeId) { return *banned ? Admission::kRefused : Admission::kMember; });
  a.Knows(b);
  b.ServeStream("echo", EchoStream);
  auto up = std::make_shared<std::promise<void>>();
  auto ended = std::make_shared<std::promise<absl::Status>>();
  struct Run {
    static Task<void> Go(Transport* t, NodeId peer, std::shared_ptr<std::promise<void>> up,
                         std::shared_ptr<std::promise<absl::Status>> ended) {
      absl::Status status = co_await WaitForEnd(t, peer, "echo", up);
      ended->set_value(status);
    }
  };
  a.Spawn(Run::Go(&a.transport(), b.id(), up, ended));
  up->get_future().get();
  *banned = true;
  SystemClock clock;
  const absl::Duration start = clock.Monotonic();
  b.On([&] { b.transport().RecheckAdmission(); });
  CHECK(absl::IsPermissionDenied(ended->get_future().get()));
  CHECK(clock.Monotonic() - start < absl::Seconds(1));
  CHECK_FALSE(b.On([&] { return b.transport().Connected(a.id()); }));
  CHECK(absl::IsPermissionDenied(a.Call(b.id(), "echo", Buffer()).status()));
}

TEST_CASE("net: the end of a peer ends streams and is reported") {
  TestNode a(1);
  auto b = std::make_unique<TestNode>(2);
  a.Knows(*b);
  b->ServeStream("echo", EchoStream);
  auto up = std::make_shared<std::promise<void>>();
  auto ended = std::make_shared<std::promise<absl::Status>>();
  std::vector<std::pair<bool, absl::Status>> seen;
  Registration watch = a.On([&] {
    return a.transport().WatchPeers(
        [&](NodeId, bool is_up, const absl::Status& why) { seen.emplace_back(is_up, why); });
  });
  struct Run {
    static Task<void> Go(Transport* t, NodeId peer, std::shared_ptr<std::promise<void>> up,
                         std::shared_ptr<std::promise<absl::Status>> ended) {
      absl::Status status = co_await WaitForEnd(t, peer, "echo", up);
      ended->set_value(status);
    }
  };
  a.Spawn(Run::Go(&a.transport(), b->id(), up, ended));
  up->get_future().get();
  b.reset();
  const absl::Status why = ended->get_future().get();
  // b's handler is destroyed first (kCancelled), or the connection goes first.
  CHECK((absl::IsUnavailable(why) || absl::IsCancelled(why)));
  a.Eventually([&] { return seen.size() == 2; });
  a.On([&] {
    CHECK(seen[0].first);
    CHECK_FALSE(seen[1].first);
    CHECK(absl::IsUnavailable(seen[1].second));
    watch.Reset();
  });
  // Come back: the same id at another address.
  TestNode again(2);
  again.Serve("echo", Echo);
  a.Knows(again);
  CHECK(a.Call(again.id(), "echo", Buffer("x")).ok());
}

TEST_CASE("net: Reach connects, or says why not") {
  TestNode a(1), b(2);
  a.Knows(b);
  const auto reach = [&](NodeId peer) {
    return a.Await<absl::Status>([&] { return a.transport().Reach(peer, kSoon); });
  };
  CHECK(reach(b.id()).ok());
  CHECK(a.On([&] { return a.transport().Connected(b.id()); }));
  CHECK(reach(b.id()).ok());
  CHECK(absl::IsUnavailable(reach(IdOf(9))));
  CHECK(absl::IsInvalidArgument(reach(a.id())));
}

TEST_CASE("net: nodes that dial each other at the same time keep one connection") {
  TestNode a(1), b(2);
  for (TestNode* node : {&a, &b}) node->Serve("echo", Echo);
  a.Knows(b);
  b.Knows(a);
  struct Run {
    static Task<void> Go(Transport* t, NodeId peer, std::shared_ptr<std::promise<absl::Status>> p) {
      auto reply = co_await t->Call(peer, "echo", Buffer("x"), kSoon);
      p->set_value(reply.status());
    }
  };
  auto pa = std::make_shared<std::promise<absl::Status>>();
  auto pb = std::make_shared<std::promise<absl::Status>>();
  a.Spawn(Run::Go(&a.transport(), b.id(), pa));
  b.Spawn(Run::Go(&b.transport(), a.id(), pb));
  CHECK(pa->get_future().get() == absl::OkStatus());
  CHECK(pb->get_future().get() == absl::OkStatus());
  a.Eventually([&] { return a.transport().ConnectionCount(b.id()) == 1; });
  b.Eventually([&] { return b.transport().ConnectionCount(a.id()) == 1; });
  CHECK(a.Call(b.id(), "echo", Buffer("x")).ok());
  CHECK(b.Call(a.id(), "echo", Buffer("x")).ok());
}

TEST_CASE("net: IPv6 and a second listen address share the port") {
  TlsTransportOptions options;
  options.listen = {"127.0.0.1:0", "[::1]:0"};
  TestNode a(1), b(2, options);
  const auto addresses = b.transport().listen_addresses();
  REQUIRE(addresses.size() == 2);
  CHECK(addresses[1].rfind("[::1]:", 0) == 0);
  b.Serve("echo", Echo);
  a.On([&] { a.transport().SetAddresses(b.id(), {addresses[1]}); });
  CHECK(a.Call(b.id(), "echo", Buffer("x")).ok());
}

TEST_CASE("net: dead and bad addresses do not hide a good one") {
  TestNode a(1), b(2);
  b.Serve("echo", Echo);
  a.On([&] { a.transport().SetAddresses(b.id(), {"nonsense", "127.0.0.1:1", b.address()}); });
  CHECK(a.Call(b.id(), "echo", Buffer("x")).ok());
  a.On([&] { a.transport().SetAddresses(IdOf(5), {"127.0.0.1:1"}); });
  const absl::Status status = a.Call(IdOf(5), "echo", Buffer()).status();
  CHECK(absl::IsUnavailable(status));
  CHECK(Text(status).find("127.0.0.1:1") != std::string::npos);
}

TEST_CASE("net: a peer that falls silent is noticed") {
  TlsTransportOptions options = Loopback();
  options.keepalive_idle = absl::Milliseconds(100);
  options.keepalive_timeout = absl::Milliseconds(100);
  TestNode b(2, options), a(1, options);
  RawClient silent(b.address());
  REQUIRE(silent.Secure(8));
  silent.Write(Bytes(HelloFrame({.incarnation = 7, .purpose = Purpose::kMain})));
  b.Eventually([&] { return b.transport().Connected(IdOf(8)); });
  b.Eventually([&] { return !b.transport().Connected(IdOf(8)); });
  // One that answers pings stays.
  a.Knows(b);
  b.Serve("echo", Echo);
  REQUIRE(a.Call(b.id(), "echo", Buffer("x")).ok());
  auto slept = a.Await<bool>([&]() {
    struct Run {
      static Task<bool> Go(Executor* e) {
        co_await Sleep(
            *e, absl::Milliseconds(500));  // several keepalive intervals: that nothing happens
        co_return true;
      }
    };
    return Run::Go(&a.executor());
  });
  CHECK(slept);
  CHECK(a.On([&] { return a.transport().Connected(b.id()); }));
}

TEST_CASE("net: two programs with the key of one node are told what is wrong") {
  TestNode a(1), original(2), copy(2);
  a.Serve("echo", Echo);
  original.Knows(a);
  copy.Knows(a);
  REQUIRE(original.Call(a.id(), "echo", Buffer("hi")).ok());
  const auto why = std::make_shared<std::string>();
  Registration watch = original.On([&] {
    return original.transport().WatchPeers([why](NodeId, bool up, const absl::Status& status) {
      if (!up) *why = std::string(status.message());
    });
  });
  REQUIRE(copy.Call(a.id(), "echo", Buffer("hi")).ok());
  original.Eventually([&] { return why->find("has restarted") != std::string::npos; });  // so it may be
  const auto copys = std::make_shared<std::string>();
  Registration watch_copy = copy.On([&] {
    return copy.transport().WatchPeers([copys](NodeId, bool up, const absl::Status& status) {
      if (!up) *copys = std::string(status.message());
    });
  });
  REQUIRE(original.Call(a.id(), "echo", Buffer("hi")).ok());
  copy.Eventually([&] { return copys->find("two programs run with the key of node " + copy.id().Short()) != std::string::npos; });
  original.On([&] { watch.Reset(); });
  copy.On([&] { watch_copy.Reset(); });
}

}  // namespace
}  // namespace gdf::net
