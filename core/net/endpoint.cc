#include "core/net/endpoint.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/text.h"

namespace gdf::net {

absl::StatusOr<HostPort> ParseHostPort(std::string_view text) {
  const size_t colon = text.rfind(':');
  uint32_t port = 0;
  if (colon != std::string_view::npos && absl::SimpleAtoi(ToAbsl(text.substr(colon + 1)), &port) &&
      port <= 65535) {
    std::string_view host = text.substr(0, colon);
    const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
    if (bracketed) host = host.substr(1, host.size() - 2);
    if (!host.empty() && (bracketed == (host.find(':') != std::string_view::npos))) {
      return HostPort{std::string(host), static_cast<uint16_t>(port)};
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("bad address '", ToAbsl(text),
                   "': expected host:port, for example 192.0.2.1:7450 or [2001:db8::1]:7450"));
}

std::string EndpointText(const asio::ip::tcp::endpoint& endpoint) {
  const std::string host = endpoint.address().to_string();
  return endpoint.address().is_v6() ? absl::StrCat("[", host, "]:", endpoint.port())
                                    : absl::StrCat(host, ":", endpoint.port());
}

asio::ip::address PlaceOf(const asio::ip::tcp::endpoint& endpoint) {
  if (!endpoint.address().is_v6()) return endpoint.address();
  asio::ip::address_v6::bytes_type bytes = endpoint.address().to_v6().to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), 0);
  return asio::ip::address_v6(bytes);
}

absl::StatusOr<Networks> Networks::Parse(const std::vector<std::string>& texts) {
  Networks networks;
  for (const std::string& text : texts) {
    std::error_code ec;
    if (text.find(':') == std::string::npos) {
      networks.v4_.push_back(asio::ip::make_network_v4(text, ec));
    } else {
      networks.v6_.push_back(asio::ip::make_network_v6(text, ec));
    }
    if (ec) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", text, "' is no network: expected ADDRESS/BITS, for example 192.168.0.0/16 or fd00::/8"));
    }
  }
  return networks;
}

bool Networks::Contain(const asio::ip::address& address) const {
  const auto holds = [&](const auto& network, const auto& of) {
    return decltype(network.canonical())(of, network.prefix_length()).canonical().address() == network.canonical().address();
  };
  if (address.is_v6() && !address.to_v6().is_v4_mapped()) {
    return std::any_of(v6_.begin(), v6_.end(), [&](const auto& network) { return holds(network, address.to_v6()); });
  }
  const asio::ip::address_v4 v4 = address.is_v4() ? address.to_v4() : asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6());
  return std::any_of(v4_.begin(), v4_.end(), [&](const auto& network) { return holds(network, v4); });
}

}  // namespace gdf::net
