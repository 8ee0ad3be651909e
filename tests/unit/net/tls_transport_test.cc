// Calls and streams between nodes on loopback.
#include <memory>

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

}  // namespace
}  // namespace gdf::net
