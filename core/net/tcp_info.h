// What the kernel knows about a TCP connection. Apart, because <linux/tcp.h> and <netinet/tcp.h>
// exclude each other.
#ifndef GDF_CORE_NET_TCP_INFO_H_
#define GDF_CORE_NET_TCP_INFO_H_

#include <optional>

#include "core/net/transport.h"

namespace gdf::net {

// The connection's payload bytes acknowledged and received, and its smoothed round-trip time.
// nullopt when the kernel does not say.
std::optional<TrafficCounters> ReadTcpInfo(int socket);

// No delay for small frames, little unsent data in the kernel (so that what is urgent is next), and
// the BBR congestion control where the kernel has it. What is not supported is left as it is.
void TuneSocket(int socket);

}  // namespace gdf::net

#endif  // GDF_CORE_NET_TCP_INFO_H_
