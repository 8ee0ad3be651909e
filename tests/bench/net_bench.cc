// Loopback throughput of the transport against raw TCP, and the latency of control calls with and
// without bulk.
//   net_bench [GiB per run, default 2]
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/clock.h"
#include "core/base/compute_pool.h"
#include "core/net/tls_transport.h"

namespace gdf::net {
namespace {

constexpr size_t kMessage = size_t{1} << 20;
const SystemClock g_clock;

struct Node {
  explicit Node(int number) {
    std::array<uint8_t, 32> seed{};
    seed[0] = static_cast<uint8_t>(number);
    TlsTransportOptions options;
    options.listen = {"127.0.0.1:0"};
    transport = *TlsTransport::Start(loop, seed, std::move(options));
    transport->SetAdmission([](NodeId) { return Admission::kMember; });
    thread.Submit([this] { loop.Run(); });
  }
  ~Node() {
    On([this] {
      tasks.reset();
      served.clear();
      transport.reset();
    });
    loop.Stop();
  }
  void On(std::function<void()> fn) {
    std::promise<void> done;
    loop.Post([&] {
      fn();
      done.set_value();
    });
    done.get_future().get();
  }
  LoopExecutor loop{g_clock};
  std::unique_ptr<TaskScope> tasks = std::make_unique<TaskScope>(loop);
  std::unique_ptr<TlsTransport> transport;
  std::vector<Registration> served;
  ThreadPool thread{1};
};

Task<void> Sink(NodeId, std::unique_ptr<Stream> stream) {
  while (true) {
    auto message = co_await stream->Receive();
    if (!message.ok()) co_return;
    if (!message->has_value()) break;
  }
  const absl::Status sent = co_await stream->Send(Buffer("done"));
  if (sent.ok()) stream->Finish();
}

Task<absl::StatusOr<Buffer>> Echo(NodeId, Buffer request) { co_return request; }

using Done = std::shared_ptr<std::promise<absl::Status>>;

Task<void> SendBulk(Transport* transport, NodeId peer, size_t bytes, Done done) {
  auto stream = co_await transport->Open(peer, "sink", Priority::kBulk, absl::Seconds(10));
  absl::Status status = stream.status();
  const Buffer message(std::string(kMessage, 'x'));
  for (size_t sent = 0; status.ok() && sent < bytes; sent += kMessage) {
    status = co_await (*stream)->Send(message);
  }
  if (status.ok()) {
    (*stream)->Finish();
    auto answer = co_await (*stream)->Receive(absl::Minutes(5));
    status = answer.status();
  }
  done->set_value(status);
}

// Seconds of one call after another, until `stop` is set.
Task<void> MeasureCalls(Transport* transport, NodeId peer, std::shared_ptr<bool> stop, size_t most,
                        std::shared_ptr<std::promise<std::vector<double>>> result) {
  std::vector<double> seconds;
  while (!*stop && seconds.size() < most) {
    const absl::Duration start = g_clock.Monotonic();
    auto reply = co_await transport->Call(peer, "echo", Buffer("ping"), absl::Seconds(30));
    if (!reply.ok()) break;
    seconds.push_back(absl::ToDoubleSeconds(g_clock.Monotonic() - start));
  }
  result->set_value(std::move(seconds));
}

void Print(const char* what, std::vector<double> seconds) {
  if (seconds.empty()) return;
  std::sort(seconds.begin(), seconds.end());
  std::printf("%-34s median %7.0f us   99%% %7.0f us   worst %7.0f us   (%zu calls)\n", what,
              1e6 * seconds[seconds.size() / 2], 1e6 * seconds[seconds.size() * 99 / 100],
              1e6 * seconds.back(), seconds.size());
}

double RawTcp(size_t bytes) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  bind(listener, reinterpret_cast<sockaddr*>(&address), length);
  listen(listener, 1);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  const absl::Duration start = g_clock.Monotonic();
  std::thread receiver([listener] {
    const int peer = accept(listener, nullptr, nullptr);
    std::vector<char> buffer(kMessage);
    while (recv(peer, buffer.data(), buffer.size(), 0) > 0) {
    }
    close(peer);
  });
  const int sender = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(sender, reinterpret_cast<sockaddr*>(&address), length) != 0) std::abort();
  const std::vector<char> buffer(kMessage, 'x');
  for (size_t sent = 0; sent < bytes;) {
    const ssize_t n = send(sender, buffer.data(), buffer.size(), MSG_NOSIGNAL);
    if (n <= 0) std::abort();
    sent += static_cast<size_t>(n);
  }
  close(sender);
  receiver.join();
  close(listener);
  return static_cast<double>(bytes) / absl::ToDoubleSeconds(g_clock.Monotonic() - start);
}

int Main(size_t bytes) {
  const double raw = RawTcp(bytes);
  std::printf("%-34s %7.0f MB/s\n", "raw TCP, one connection", raw / 1e6);
  Node a(1), b(2);
  b.On([&] {
    b.served.push_back(b.transport->HandleStream("sink", Sink, {}));
    b.served.push_back(b.transport->HandleCall("echo", Echo));
  });
  const NodeId peer = b.transport->self();
  const std::vector<std::string> addresses = b.transport->listen_addresses();
  a.On([&] { a.transport->SetAddresses(peer, addresses); });
  const auto calls = [&](std::shared_ptr<bool> stop, size_t most) {
    auto result = std::make_shared<std::promise<std::vector<double>>>();
    a.On([&] { a.tasks->Spawn(MeasureCalls(a.transport.get(), peer, stop, most, result)); });
    return result->get_future();
  };
  Print("call, idle", calls(std::make_shared<bool>(false), 5000).get());
  for (const int streams : {1, 3}) {
    std::vector<Done> done;
    const absl::Duration start = g_clock.Monotonic();
    for (int i = 0; i < streams; ++i) {
      done.push_back(std::make_shared<std::promise<absl::Status>>());
      a.On([&] {
        a.tasks->Spawn(
            SendBulk(a.transport.get(), peer, bytes / static_cast<size_t>(streams), done.back()));
      });
    }
    auto stop = std::make_shared<bool>(false);
    auto latencies = calls(stop, 1'000'000);
    for (const Done& one : done) {
      if (const absl::Status status = one->get_future().get(); !status.ok()) {
        std::fprintf(stderr, "bulk: %s\n", status.ToString().c_str());
        return 1;
      }
    }
    const double rate =
        static_cast<double>(bytes) / absl::ToDoubleSeconds(g_clock.Monotonic() - start);
    a.On([&] { *stop = true; });
    const std::string name = "transport, " + std::to_string(streams) + " bulk stream(s) + calls";
    std::printf("%-34s %7.0f MB/s   %.2f of raw TCP\n", name.c_str(), rate / 1e6, rate / raw);
    Print("  call meanwhile", latencies.get());
  }
  return 0;
}

}  // namespace
}  // namespace gdf::net

int main(int argc, char** argv) {
  const double gib = argc > 1 ? std::atof(argv[1]) : 2;
  return gdf::net::Main(static_cast<size_t>(gib * 1024) << 20);
}
