#include "core/net/tcp_info.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace gdf::net {
namespace {

// Enough to keep a fast link busy between two wake-ups, 0.2 s of a 10 Mbit/s one.
constexpr int kUnsentBytes = 256 << 10;

// Of less a kernel knows nothing but how fast a burst was taken, which is no link's rate.
constexpr uint64_t kEnoughForRate = 1 << 20;

constexpr char kBbr[] = "bbr";  // which keeps its rate when packets are lost, as on distant links

constexpr char kCubic[] = "cubic";  // in every Linux
constexpr uint32_t kNearbyMicroseconds = 1000;
constexpr uint32_t kUnknown = ~uint32_t{0};  // a round trip that was not measured yet

bool ReadInfo(int socket, struct tcp_info* info) {
  std::memset(info, 0, sizeof(*info));
  socklen_t length = sizeof(*info);
  return getsockopt(socket, IPPROTO_TCP, TCP_INFO, info, &length) == 0;
}

bool SetCongestionControl(int socket, const std::string& name) {
  return setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0;
}

}  // namespace

absl::Status CheckCongestionControl(const std::string& congestion_control) {
  if (congestion_control.empty() || congestion_control == kSystemsChoice) return absl::OkStatus();
  const int socket = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int probe = socket >= 0 ? socket : ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool known = SetCongestionControl(probe, congestion_control);
  const int error = errno;
  close(probe);
  if (known) return absl::OkStatus();
  std::ifstream file("/proc/sys/net/ipv4/tcp_available_congestion_control");
  std::string available;
  std::getline(file, available);
  return absl::FailedPreconditionError(absl::StrCat("TCP congestion control '", congestion_control, "': ",
                                                    std::generic_category().message(error), "; this kernel has: ", available));
}

std::optional<TrafficCounters> ReadTcpInfo(int socket) {
  struct tcp_info info;
  if (!ReadInfo(socket, &info)) return std::nullopt;
  return TrafficCounters{.bytes_sent = info.tcpi_bytes_acked,
                         .bytes_received = info.tcpi_bytes_received,
                         .rtt = absl::Microseconds(info.tcpi_rtt),
                         .min_rtt = absl::Microseconds(info.tcpi_min_rtt == kUnknown ? 0 : info.tcpi_min_rtt),
                         .rate_bytes_per_sec = info.tcpi_bytes_acked < kEnoughForRate ? 0 : info.tcpi_delivery_rate};
}

void TuneSocket(int socket, const std::string& congestion_control) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kUnsentBytes, sizeof(kUnsentBytes));
  if (congestion_control != kSystemsChoice) {
    SetCongestionControl(socket, congestion_control.empty() ? kBbr : congestion_control);
  }
}

void TuneForPath(int socket) {
  struct tcp_info info;
  if (ReadInfo(socket, &info) && info.tcpi_min_rtt < kNearbyMicroseconds) SetCongestionControl(socket, kCubic);
}

}  // namespace gdf::net
