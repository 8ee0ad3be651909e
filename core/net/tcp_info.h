// What the kernel knows about a TCP connection. Apart, because <linux/tcp.h> and <netinet/tcp.h>
// exclude each other.
#ifndef GDF_CORE_NET_TCP_INFO_H_
#define GDF_CORE_NET_TCP_INFO_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "core/net/transport.h"

namespace gdf::net {

// The connection's payload bytes acknowledged and received, its smoothed round-trip time, and the rate
// of its last deliveries, whatever they were.
// nullopt when the kernel does not say.
std::optional<TrafficCounters> ReadTcpInfo(int socket);

// The congestion control that sockets get; "": BBR where the kernel has it. kSystemsChoice: as the
// system has it.
inline constexpr char kSystemsChoice[] = "system";
// kFailedPrecondition, with those that there are, when this kernel has none of that name, or not for
// this process.
absl::Status CheckCongestionControl(const std::string& congestion_control);

// No delay for small frames, little unsent data in the kernel (so that what is urgent is next), and
// the congestion control. What is not supported is left as it is.
void TuneSocket(int socket, const std::string& congestion_control);

// Once the path has been measured: cubic in the place of BBR where a round trip takes less than a millisecond, as on one
// machine or in one room. BBR's pacing costs processor time there, and there is no distant queue to keep short.
void TuneForPath(int socket);

}  // namespace gdf::net

#endif  // GDF_CORE_NET_TCP_INFO_H_
