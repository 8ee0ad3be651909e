// Nodes on loopback, each with an executor thread of its own, and a TLS client that can misbehave.
#ifndef GDF_TESTS_UNIT_NET_NET_HARNESS_H_
#define GDF_TESTS_UNIT_NET_NET_HARNESS_H_

#include <openssl/ssl.h>

#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "core/base/compute_pool.h"
#include "core/base/executor.h"
#include "core/net/frame.h"
#include "core/net/tls_context.h"
#include "core/net/tls_transport.h"

namespace gdf::net {

inline constexpr absl::Duration kSoon = absl::Seconds(20);  // a deadline, not an expectation

std::array<uint8_t, 32> SeedOf(int number);
NodeId IdOf(int number);
TlsTransportOptions Loopback();

class TestNode {
 public:
  // Everybody is a member unless `admission` says otherwise.
  explicit TestNode(int number, TlsTransportOptions options = Loopback(),
                    std::function<Admission(NodeId)> admission = nullptr);
  ~TestNode();

  TlsTransport& transport() { return *transport_; }
  NodeId id() const { return IdOf(number_); }
  std::string address() const { return transport_->listen_addresses().at(0); }
  Executor& executor() { return loop_; }

  // Runs `fn` on the executor and waits for its result.
  template <typename Fn, typename R = std::invoke_result_t<Fn>>
  R On(Fn fn) {
    std::promise<R> result;
    std::future<R> future = result.get_future();
    loop_.Post([&] {
      if constexpr (std::is_void_v<R>) {
        fn();
        result.set_value();
      } else {
        result.set_value(fn());
      }
    });
    REQUIRE(future.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
    return future.get();
  }
  // Runs the task that `make` returns and waits for its result.
  template <typename T>
  T Await(std::function<Task<T>()> make) {
    auto result = std::make_shared<std::promise<T>>();
    std::future<T> future = result->get_future();
    On([&] { scope_->Spawn(Into(make(), result)); });
    REQUIRE(future.wait_for(std::chrono::seconds(60)) == std::future_status::ready);
    return future.get();
  }
  void Spawn(Task<void> task) {
    auto shared = std::make_shared<Task<void>>(std::move(task));
    On([&] { scope_->Spawn(std::move(*shared)); });
  }
  // Polls a condition on the executor, woken by its timers, until it holds.
  void Eventually(std::function<bool()> condition);

  absl::StatusOr<Buffer> Call(NodeId peer, std::string method, Buffer request,
                              absl::Duration timeout = kSoon);
  void Serve(std::string method, Transport::CallHandler handler, MethodOptions options = {});
  void ServeStream(std::string method, Transport::StreamHandler handler,
                   MethodOptions options = {});
  void Unserve() {
    On([&] { registrations_.clear(); });
  }
  void Knows(TestNode& other) {
    On([&] { transport_->SetAddresses(other.id(), {other.address()}); });
  }

 private:
  template <typename T>
  static Task<void> Into(Task<T> task, std::shared_ptr<std::promise<T>> result) {
    T value = co_await std::move(task);
    result->set_value(std::move(value));
  }
  static Task<bool> Poll(TestNode* node, std::function<bool()> condition);

  const int number_;
  SystemClock clock_;
  LoopExecutor loop_{clock_};
  std::unique_ptr<TaskScope> scope_ = std::make_unique<TaskScope>(loop_);
  std::unique_ptr<TlsTransport> transport_;
  std::vector<Registration> registrations_;
  ThreadPool thread_{1};
};

Task<absl::StatusOr<Buffer>> Echo(NodeId peer, Buffer request);
// Answers each message with the same one, until the peer finishes.
Task<void> EchoStream(NodeId peer, std::unique_ptr<Stream> stream);

// Sends bulk messages to the peer's "mirror", an EchoStream, and waits for each to come back as it was.
Task<absl::Status> Reflect(Transport* transport, NodeId peer, std::vector<Buffer> messages);

// Sends so many bulk messages of 1 MiB to the peer's "sink", a Sink, and checks the sum that it answers.
Task<absl::Status> SendBulk(Transport* transport, NodeId peer, size_t messages);
// Counts bytes until the peer finishes and sends the sum.
Task<void> Sink(NodeId peer, std::unique_ptr<Stream> stream);

// Opens a stream to an EchoStream, sets `up` once that has answered, and waits for the stream's end.
Task<absl::Status> WaitForEnd(Transport* transport, NodeId peer, std::string method,
                              std::shared_ptr<std::promise<void>> up);

std::string Text(const absl::Status& status);
Buffer Filled(size_t size, char c);

// A TCP socket on loopback that listens and whose connections nobody takes; its port goes to `port`.
int ListenUnheard(uint16_t* port);

// A blocking TCP socket from `from` (where it matters) to "host:port"; -1 when that fails. Any thread, unlike assertions.
int ConnectTo(const std::string& address, const std::string& from);

// A blocking TLS client under our own control.
class RawClient {
 public:
  // TCP only until Secure(). `from`: the address to call from, where it matters.
  explicit RawClient(const std::string& address, const std::string& from = "");
  ~RawClient();
  bool Secure(int number);
  void Write(std::string_view bytes);       // over TLS
  void WritePlain(std::string_view bytes);  // before TLS, or past it
  // Until the other side closes; at most 20 s. The text of the kClose it sent, or "".
  std::string ReadUntilClosed();
  bool closed() const { return closed_; }
  int alert() const { return alert_; }  // TLS's that came at the end, or 0
  // Whether the other side has closed, without reading.
  bool HungUp() const;

 private:
  const int socket_;
  std::unique_ptr<TlsContext> context_;
  SslPtr ssl_;
  bool closed_ = false;
  int alert_ = 0;
};

std::string Bytes(const Frame& frame);

}  // namespace gdf::net

#endif  // GDF_TESTS_UNIT_NET_NET_HARNESS_H_
