#include "core/net/tcp_info.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "tests/unit/net/net_harness.h"

namespace gdf::net {
namespace {

TEST_CASE("net: sockets get the owner's congestion control, an unknown one is refused with those that there are") {
  const auto tuned = [](const std::string& name) {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    if (name != "untouched") TuneSocket(socket, name);
    char text[16] = {};
    socklen_t size = sizeof(text);
    REQUIRE(getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, text, &size) == 0);
    close(socket);
    return std::string(text);
  };
  CHECK(tuned("reno") == "reno");  // in every Linux, for every process
  CHECK(tuned(kSystemsChoice) == tuned("untouched"));
  CHECK(tuned("") == (CheckCongestionControl("bbr").ok() ? "bbr" : tuned("untouched")));
  // A path within the machine, once a byte has gone and come.
  uint16_t port = 0;
  const int listener = ListenUnheard(&port);
  const int client = ConnectTo("127.0.0.1:" + std::to_string(port), "");
  TuneSocket(client, "");
  TuneForPath(client);
  char name[16] = {};
  socklen_t size = sizeof(name);
  REQUIRE(getsockopt(client, IPPROTO_TCP, TCP_CONGESTION, name, &size) == 0);
  CHECK(std::string(name) == (CheckCongestionControl("cubic").ok() ? "cubic" : tuned("")));
  close(client);
  close(listener);
  TestNode a(1);
  TlsTransportOptions options = Loopback();
  options.congestion_control = "no-such";
  const absl::Status refused = a.On([&] {
    return TlsTransport::Start(a.executor(), SeedOf(3), options).status();
  });
  CHECK(absl::IsFailedPrecondition(refused));
  const std::string message(refused.message());
  CHECK(message.find("TCP congestion control 'no-such': ") == 0);
  CHECK(message.find("; this kernel has: ") != std::string::npos);
  CHECK(message.find("reno") != std::string::npos);
}

}  // namespace
}  // namespace gdf::net
