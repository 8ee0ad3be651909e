// Bulk data: its connections, its rate and the limits on it.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/net/net_harness.h"

namespace gdf::net {
namespace {

TEST_CASE("net: the path to a peer, and the rate of the bulk data that went there, also once its connection is closed") {
  TlsTransportOptions options = Loopback();
  options.idle_stripe = absl::Milliseconds(200);
  TestNode a(1, options), b(2, options);
  a.Knows(b);
  b.ServeStream("sink", Sink);
  const auto rate = [&](TestNode& from, TestNode& to) {
    return from.On([&] { return from.transport().counters(to.id()).rate_bytes_per_sec; });
  };
  CHECK_FALSE(a.On([&] { return a.transport().path(b.id()); }));
  b.Serve("echo", Echo);
  REQUIRE(a.Call(b.id(), "echo", Buffer("hi")).ok());
  CHECK(rate(a, b) == 0);  // control data is no measure
  REQUIRE(a.Await<absl::Status>([&] { return SendBulk(&a.transport(), b.id(), 0); }).ok());
  CHECK(rate(a, b) == 0);  // nor is a burst
  REQUIRE(a.Await<absl::Status>([&] { return SendBulk(&a.transport(), b.id(), 8); }).ok());
  CHECK(rate(a, b) > 0);
  const auto path = a.On([&] { return a.transport().path(b.id()); });
  REQUIRE(path);
  CHECK(path->remote == b.address());
  CHECK(path->dialled);
  CHECK(path->connections >= 1);
  CHECK_FALSE(b.On([&] { return b.transport().path(a.id()); })->dialled);
  a.Eventually([&] { return a.transport().ConnectionCount(b.id()) == 1; });
  CHECK(rate(a, b) > 0);
}

TEST_CASE("net: control calls stay quick while bulk flows, within the upload limit") {
  TlsTransportOptions options = Loopback();
  options.limits.upload_bytes_per_sec = 50'000'000;
  TestNode a(1, options), b(2);
  a.Knows(b);
  b.Serve("echo", Echo);
  b.ServeStream("sink", Sink);
  REQUIRE(a.Call(b.id(), "echo", Buffer("warm")).ok());
  SystemClock clock;
  auto bulk = std::make_shared<std::promise<absl::Status>>();
  struct Run {
    static Task<void> Go(Transport* t, NodeId peer, std::shared_ptr<std::promise<absl::Status>> p) {
      absl::Status status = co_await SendBulk(t, peer, 100);
      p->set_value(status);
    }
  };
  const absl::Duration start = clock.Monotonic();
  a.Spawn(Run::Go(&a.transport(), b.id(), bulk));
  auto done = bulk->get_future();
  int calls = 0;
  absl::Duration worst;
  while (done.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    const absl::Duration before = clock.Monotonic();
    REQUIRE(a.Call(b.id(), "echo", Buffer("x")).ok());
    worst = std::max(worst, clock.Monotonic() - before);
    ++calls;
  }
  const double seconds = absl::ToDoubleSeconds(clock.Monotonic() - start);
  CHECK(done.get() == absl::OkStatus());
  CHECK(calls > 20);
  // The queue of bulk at this rate lasts 2 s; behind it a call would take that long.
  CHECK(worst < absl::Seconds(1));
  // 104.9 MB at 50 MB/s are 2.1 s, less what fits the first burst; never faster.
  CHECK(seconds > 1.9);
  const TrafficCounters sent = a.On([&] { return a.transport().counters(b.id()); });
  CHECK(sent.bytes_sent > (size_t{100} << 20));
  CHECK(static_cast<double>(sent.bytes_sent) < 1.02 * (100 << 20) + 2e6);
}

TEST_CASE("net: the download limit slows the sender") {
  TlsTransportOptions options = Loopback();
  options.limits.download_bytes_per_sec = 20'000'000;
  TestNode a(1), b(2, options);
  a.Knows(b);
  b.ServeStream("sink", Sink);
  SystemClock clock;
  const absl::Duration start = clock.Monotonic();
  CHECK(a.Await<absl::Status>([&] { return SendBulk(&a.transport(), b.id(), 20); }) ==
        absl::OkStatus());
  CHECK(clock.Monotonic() - start > absl::Milliseconds(900));  // 21 MB at 20 MB/s
}

TEST_CASE("net: the upload limit is the node's, whichever path its bytes take") {
  TlsTransportOptions limited = Loopback();
  limited.limits.upload_bytes_per_sec = 20'000'000;
  TlsTransportOptions both = Loopback();
  both.listen = {"127.0.0.1:0", "[::1]:0"};
  TestNode a(1, limited), b(2, both);
  for (TestNode* node : {&a, &b}) node->Serve("echo", Echo);
  b.ServeStream("sink", Sink);
  const auto send = [&] {
    return a.Await<absl::Status>([&] { return SendBulk(&a.transport(), b.id(), 15); });
  };
  const auto cut = [&] {
    a.On([&] { a.transport().Disconnect(b.id(), absl::UnavailableError("another path")); });
    b.Eventually([&] { return !b.transport().Connected(a.id()); });
  };
  const std::vector<std::string> addresses = b.transport().listen_addresses();
  SystemClock clock;
  const absl::Duration start = clock.Monotonic();
  for (const std::string& address : addresses) {
    a.On([&] { a.transport().SetAddresses(b.id(), {address}); });
    CHECK(send() == absl::OkStatus());
    cut();
  }
  a.On([&] { a.transport().SetAddresses(b.id(), {}); });  // over a connection that the other dials
  b.Knows(a);
  REQUIRE(b.Call(a.id(), "echo", Buffer("x")).ok());
  CHECK(send() == absl::OkStatus());
  // 3 times 15.7 MB at 20 MB/s are 2.36 s, less the first burst; two of them are 1.57 s.
  CHECK(clock.Monotonic() - start > absl::Seconds(2));
}

TEST_CASE("net: bulk streams spread over several connections") {
  TestNode a(1), b(2);
  a.Knows(b);
  b.ServeStream("sink", Sink);
  auto left = std::make_shared<int>(4);
  auto all = std::make_shared<std::promise<absl::Status>>();
  struct Run {
    static Task<void> Go(Transport* t, NodeId peer, std::shared_ptr<int> left,
                         std::shared_ptr<std::promise<absl::Status>> all) {
      absl::Status status = co_await SendBulk(t, peer, 30);
      if (!status.ok() || --*left == 0) all->set_value(status);
    }
  };
  for (int i = 0; i < 4; ++i) a.Spawn(Run::Go(&a.transport(), b.id(), left, all));
  CHECK(all->get_future().get() == absl::OkStatus());
  CHECK(a.On([&] { return a.transport().ConnectionCount(b.id()); }) > 1);
}

TEST_CASE("net: a frame that takes longer than the keepalive allows for an answer arrives") {
  TlsTransportOptions options = Loopback();
  options.keepalive_idle = absl::Milliseconds(150);
  options.keepalive_timeout = absl::Milliseconds(150);
  TlsTransportOptions limited = options;
  SECTION("at the sender's limit") { limited.limits.upload_bytes_per_sec = 700'000; }
  SECTION("at the receiver's limit") { limited.limits.download_bytes_per_sec = 700'000; }
  const bool sends = limited.limits.upload_bytes_per_sec > 0;
  TestNode a(1, sends ? limited : options), b(2, sends ? options : limited);
  a.Knows(b);
  b.ServeStream("sink", Sink);
  SystemClock clock;
  const absl::Duration start = clock.Monotonic();
  CHECK(a.Await<absl::Status>([&] { return SendBulk(&a.transport(), b.id(), 2); }) == absl::OkStatus());
  CHECK(clock.Monotonic() - start > absl::Seconds(2));  // 2.1 MB at 0.7 MB/s, a frame of 1 MiB in 1.5 s
}

TEST_CASE("net: idle bulk connections and idle strangers go") {
  TlsTransportOptions options = Loopback();
  options.idle_stripe = absl::Milliseconds(100);
  TestNode a(1, options), b(2, Loopback());
  a.Knows(b);
  b.ServeStream("sink", Sink);
  CHECK(a.Await<absl::Status>([&] { return SendBulk(&a.transport(), b.id(), 1); }) ==
        absl::OkStatus());
  a.Eventually([&] { return a.transport().ConnectionCount(b.id()) == 1; });
  b.Eventually([&] { return b.transport().ConnectionCount(a.id()) == 1; });
  TestNode c(3, options, [](NodeId) { return Admission::kStranger; });
  c.Serve("join", Echo, {.open_to_strangers = true});
  b.Knows(c);
  REQUIRE(b.Call(c.id(), "join", Buffer()).ok());
  b.Eventually([&] { return !b.transport().Connected(c.id()); });
}

}  // namespace
}  // namespace gdf::net
