// Network addresses as text.
#ifndef GDF_CORE_NET_ENDPOINT_H_
#define GDF_CORE_NET_ENDPOINT_H_

#include <asio/ip/network_v4.hpp>
#include <asio/ip/network_v6.hpp>
#include <asio/ip/tcp.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace gdf::net {

struct HostPort {
  std::string host;  // without brackets
  uint16_t port = 0;
};

// "192.0.2.1:7450", "[2001:db8::1]:7450", "host.example:7450". kInvalidArgument, saying what was
// expected.
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);
// As ParseHostPort reads it.
std::string EndpointText(const asio::ip::tcp::endpoint& endpoint);
// What limits by address count by: the address; of an IPv6 one the first 64 bits, since whoever has
// one has all that begin so (RFC 4291, section 2.5.1).
asio::ip::address PlaceOf(const asio::ip::tcp::endpoint& endpoint);

// Networks as in "192.168.0.0/16" or "fd00::/8".
class Networks {
 public:
  // kInvalidArgument, with the text that is none.
  static absl::StatusOr<Networks> Parse(const std::vector<std::string>& texts);
  bool Contain(const asio::ip::address& address) const;

 private:
  std::vector<asio::ip::network_v4> v4_;
  std::vector<asio::ip::network_v6> v6_;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_ENDPOINT_H_
