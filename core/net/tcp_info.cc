#include "core/net/tcp_info.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

namespace gdf::net {
namespace {

// Enough to keep a fast link busy between two wake-ups, 0.2 s of a 10 Mbit/s one.
constexpr int kUnsentBytes = 256 << 10;

}  // namespace

std::optional<TrafficCounters> ReadTcpInfo(int socket) {
  struct tcp_info info;
  std::memset(&info, 0, sizeof(info));
  socklen_t length = sizeof(info);
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return std::nullopt;
  return TrafficCounters{.bytes_sent = info.tcpi_bytes_acked,
                         .bytes_received = info.tcpi_bytes_received,
                         .rtt = absl::Microseconds(info.tcpi_rtt)};
}

void TuneSocket(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof(kUnsentBytes));
  setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, "bbr", 3);
}

}  // namespace gdf::net
