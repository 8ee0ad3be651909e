#include "core/net/tls_transport.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/net/net_harness.h"

namespace gdf::net {
namespace {

using StreamOr = absl::StatusOr<std::unique_ptr<Stream>>;

// Never answers, until it is cancelled; then tells `ended` why.
Task<void> Hold(std::shared_ptr<std::promise<absl::Status>> ended, std::unique_ptr<Stream> stream) {
  while (true) {
    auto message = co_await stream->Receive();
    if (message.ok() && message->has_value()) continue;
    ended->set_value(message.status());
    co_return;
  }
}

Task<absl::Status> WaitForEnd(Transport* transport, NodeId peer, std::string method,
                              std::shared_ptr<std::promise<void>> up) {
  StreamOr stream = co_await transport->Open(peer, method, Priority::kControl, kSoon);
  if (!stream.ok()) co_return stream.status();
  const absl::Status sent = co_await (*stream)->Send(Buffer("here"));
  if (!sent.ok()) co_return sent;
  auto first = co_await (*stream)->Receive(kSoon);
  if (!first.ok()) co_return first.status();
  up->set_value();
  auto next = co_await (*stream)->Receive(kSoon);
  co_return next.status();
}

Task<absl::Status> SendBulk(Transport* transport, NodeId peer, size_t messages) {
  StreamOr stream = co_await transport->Open(peer, "sink", Priority::kBulk, kSoon);
  if (!stream.ok()) co_return stream.status();
  const Buffer message = Filled(1 << 20, 'x');
  for (size_t i = 0; i < messages; ++i) {
    const absl::Status sent = co_await (*stream)->Send(message);
    if (!sent.ok()) co_return sent;
  }
  (*stream)->Finish();
  auto answer = co_await (*stream)->Receive(absl::Seconds(60));
  if (!answer.ok()) co_return answer.status();
  if (!answer->has_value() || (**answer).view() != std::to_string(messages << 20)) {
    co_return absl::DataLossError("not everything arrived");
  }
  co_return absl::OkStatus();
}

// Counts bytes until the peer finishes and sends the sum.
Task<void> Sink(NodeId, std::unique_ptr<Stream> stream) {
  size_t total = 0;
  while (true) {
    auto message = co_await stream->Receive();
    if (!message.ok()) co_return;
    if (!message->has_value()) break;
    total += (**message).size();
  }
  const absl::Status sent = co_await stream->Send(Buffer(std::to_string(total)));
  if (sent.ok()) stream->Finish();
}

TEST_CASE("net: a call is answered, and a failure's status travels") {
  TestNode a(1), b(2);
  a.Knows(b);
  b.Serve("echo", Echo);
  b.Serve("fail", [](NodeId, Buffer) -> Task<absl::StatusOr<Buffer>> {
    co_return absl::DataLossError("chunk 7 is damaged");
  });
  auto reply = a.Call(b.id(), "echo", Buffer("hi"));
  REQUIRE(reply.ok());
  CHECK(reply->view() == "hi");
  CHECK(a.Call(b.id(), "echo", Buffer())->empty());
  CHECK(a.Call(b.id(), "echo", Filled(kMaxMessageBytes, 'm'))->size() == kMaxMessageBytes);
  CHECK(
      absl::IsInvalidArgument(a.Call(b.id(), "echo", Filled(kMaxMessageBytes + 1, 'm')).status()));
  const absl::Status failed = a.Call(b.id(), "fail", Buffer()).status();
  CHECK(failed == absl::DataLossError("chunk 7 is damaged"));
  CHECK(absl::IsUnimplemented(a.Call(b.id(), "nothing", Buffer()).status()));
  CHECK(a.On([&] { return a.transport().Connected(b.id()); }));
}

TEST_CASE("net: who did not dial is served over the same connection") {
  TestNode a(1), b(2);
  a.Knows(b);
  a.Serve("echo", Echo);
  b.Serve("echo", Echo);
  a.ServeStream("sink", Sink);
  CHECK(absl::IsUnavailable(b.Call(a.id(), "echo", Buffer("x")).status()));
  REQUIRE(a.Call(b.id(), "echo", Buffer("x")).ok());
  CHECK(b.Call(a.id(), "echo", Buffer("y"))->view() == "y");
  CHECK(a.On([&] { return a.transport().ConnectionCount(b.id()); }) == 1);
  // For bulk the one that can dial is asked to.
  CHECK(b.Await<absl::Status>([&] { return SendBulk(&b.transport(), a.id(), 4); }) ==
        absl::OkStatus());
  CHECK(b.On([&] { return b.transport().ConnectionCount(a.id()); }) == 2);
}

TEST_CASE("net: streams carry messages both ways in order") {
  TestNode a(1), b(2);
  a.Knows(b);
  b.ServeStream("echo", EchoStream);
  struct Run {
    static Task<absl::Status> Go(Transport* t, NodeId peer, Priority priority) {
      StreamOr stream = co_await t->Open(peer, "echo", priority, kSoon);
      if (!stream.ok()) co_return stream.status();
      for (int i = 0; i < 50; ++i) {
        const absl::Status sent =
            co_await (*stream)->Send(Filled(static_cast<size_t>(i * 1000), 'a'));
        if (!sent.ok()) co_return sent;
        auto back = co_await (*stream)->Receive(kSoon);
        if (!back.ok()) co_return back.status();
        if (!back->has_value() || (**back).size() != static_cast<size_t>(i * 1000)) {
          co_return absl::DataLossError("out of order");
        }
      }
      (*stream)->Finish();
      auto end = co_await (*stream)->Receive(kSoon);
      if (!end.ok()) co_return end.status();
      if (end->has_value()) co_return absl::DataLossError("a message after the end");
      co_return absl::OkStatus();
    }
  };
  for (Priority priority : {Priority::kControl, Priority::kBulk}) {
    CHECK(a.Await<absl::Status>([&] { return Run::Go(&a.transport(), b.id(), priority); }) ==
          absl::OkStatus());
  }
}

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

TEST_CASE("net: unregistering ends the running handlers and later opens") {
  TestNode a(1), b(2);
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
  b.Unserve();
  CHECK(absl::IsCancelled(ended->get_future().get()));
  CHECK(absl::IsUnimplemented(a.Call(b.id(), "echo", Buffer()).status()));
}

TEST_CASE("net: a dropped stream cancels the peer's; deadlines leave it usable") {
  TestNode a(1), b(2);
  a.Knows(b);
  auto held = std::make_shared<std::promise<absl::Status>>();
  b.ServeStream("hold", [held](NodeId, std::unique_ptr<Stream> stream) {
    return Hold(held, std::move(stream));
  });
  struct Run {
    static Task<absl::Status> Go(Transport* t, NodeId peer) {
      StreamOr stream = co_await t->Open(peer, "hold", Priority::kControl, kSoon);
      if (!stream.ok()) co_return stream.status();
      auto none = co_await (*stream)->Receive(absl::Milliseconds(20));
      if (!absl::IsDeadlineExceeded(none.status())) co_return absl::InternalError("no deadline");
      const absl::Status sent = co_await (*stream)->Send(Buffer("still works"));
      if (!sent.ok()) co_return sent;
      (*stream)->Cancel(absl::AbortedError("round 4 was superseded"));
      const absl::Status after = co_await (*stream)->Send(Buffer("x"));
      co_return after;
    }
  };
  const absl::Status aborted = absl::AbortedError("round 4 was superseded");
  CHECK(a.Await<absl::Status>([&] { return Run::Go(&a.transport(), b.id()); }) == aborted);
  CHECK(held->get_future().get() == aborted);
}

TEST_CASE("net: a method's limits hold") {
  TestNode a(1), b(2);
  a.Knows(b);
  b.Serve("small", Echo, {.max_message_bytes = 10});
  CHECK(a.Call(b.id(), "small", Filled(10, 'x')).ok());
  CHECK(absl::IsInvalidArgument(a.Call(b.id(), "small", Filled(11, 'x')).status()));
  b.ServeStream("one", EchoStream, {.max_concurrent_per_peer = 1});
  struct Run {
    static Task<absl::Status> Go(Transport* t, NodeId peer) {
      StreamOr first = co_await t->Open(peer, "one", Priority::kControl, kSoon);
      if (!first.ok()) co_return first.status();
      StreamOr second = co_await t->Open(peer, "one", Priority::kControl, kSoon);
      if (!second.ok()) co_return second.status();
      auto answer = co_await (*second)->Receive(kSoon);
      co_return answer.status();
    }
  };
  CHECK(absl::IsResourceExhausted(
      a.Await<absl::Status>([&] { return Run::Go(&a.transport(), b.id()); })));
}

// A ping cannot pass the frame that is on its way; that the peer takes the frame says that it lives.
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
