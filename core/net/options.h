// What the owner and the tests can set about the real transport.
#ifndef GDF_CORE_NET_OPTIONS_H_
#define GDF_CORE_NET_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace gdf::net {

// Of the whole node; 0: no limit. Bulk waits; control is counted but never held back.
struct RateLimits {
  uint64_t upload_bytes_per_sec = 0;
  uint64_t download_bytes_per_sec = 0;
};

struct TlsTransportOptions {
  // "host:port" or "[v6]:port"; no names. Port 0 takes a free one, the same for all addresses where
  // possible. Empty: listens nowhere.
  std::vector<std::string> listen = {"0.0.0.0:0", "[::]:0"};
  RateLimits limits;
  std::string congestion_control;  // of TCP, see CheckCongestionControl; "": BBR where there is one, cubic nearby
  // "10.0.0.0/8", ...: with a peer at such an address, bulk connections are taken out of TLS after the
  // hello when the peer agrees: nobody else can read or change what is in them only where the network is trusted.
  std::vector<std::string> clear_networks;
  // At most so much is passed on between members that cannot reach each other (within `limits`, too); 0: no limit of its
  // own; absent: nothing is.
  std::optional<uint64_t> relay_bytes_per_sec = std::nullopt;
  int max_stripes = 3;      // bulk connections per peer
  int max_half_open = 128;  // accepted, and not known yet who it is; one more pushes another out
  int max_half_open_per_address = 32;  // IPv6: per /64, here and below
  int max_strangers = 64;              // connections; one more is refused
  int max_strangers_per_address = 16;
  absl::Duration handshake_timeout = absl::Seconds(10);  // TCP connect, TLS and hello together
  absl::Duration keepalive_idle = absl::Seconds(15);     // silence after which a peer is asked
  absl::Duration keepalive_timeout = absl::Seconds(10);  // and how long it has to answer
  absl::Duration idle_stripe =
      absl::Seconds(30);  // unused bulk and strangers' connections are closed
  size_t stream_window_bytes = size_t{8} << 20;  // of a bulk stream, once its reader keeps up
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_OPTIONS_H_
