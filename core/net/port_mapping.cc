#include "core/net/port_mapping.h"

#include <arpa/inet.h>
#include <miniupnpc/miniupnpc.h>
#include <miniupnpc/upnpcommands.h>
#include <natpmp.h>
#include <netinet/in.h>
#include <sys/select.h>

#include <array>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gdf::net {
namespace {

constexpr uint32_t kLeaseSeconds = 3600;
constexpr absl::Duration kRenew = absl::Minutes(25);  // two tries within a lease
constexpr absl::Duration kRetry = absl::Minutes(10);  // routers get replaced and rebooted
constexpr int kDiscoverMilliseconds = 2000;
constexpr int kNatPmpTries = 4;  // 250 ms, doubling (RFC 6886 3.1)

std::string Ipv4Text(in_addr address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &address, text.data(), text.size());
  return text.data();
}

// Waits for the answer to the request that was just sent.
absl::StatusOr<natpmpresp_t> Answer(natpmp_t& natpmp, int sent) {
  if (sent < 0) return absl::UnavailableError("NAT-PMP: cannot send to the gateway");
  natpmpresp_t response{};
  for (int tries = 0; tries < kNatPmpTries; ++tries) {
    timeval timeout{};
    getnatpmprequesttimeout(&natpmp, &timeout);
    fd_set readable;
    FD_ZERO(&readable);
    FD_SET(natpmp.s, &readable);
    select(natpmp.s + 1, &readable, nullptr, nullptr, &timeout);
    const int result = readnatpmpresponseorretry(&natpmp, &response);
    if (result == 0) return response;
    if (result != NATPMP_TRYAGAIN) {
      return absl::UnavailableError(absl::StrCat("NAT-PMP: the gateway refused, code ", result));
    }
  }
  return absl::UnavailableError("NAT-PMP: no answer from the gateway");
}

struct NatPmp {
  NatPmp() : ready(initnatpmp(&handle, 0, 0) == 0) {}
  NatPmp(const NatPmp&) = delete;
  ~NatPmp() {
    if (ready) closenatpmp(&handle);
  }
  natpmp_t handle{};
  const bool ready;
};

struct Igd {
  Igd() {
    int error = 0;
    UPNPDev* devices =
        upnpDiscover(kDiscoverMilliseconds, nullptr, nullptr, UPNP_LOCAL_PORT_ANY, 0, 2, &error);
    kind = UPNP_GetValidIGD(devices, &urls, &data, lan.data(), static_cast<int>(lan.size()));
    freeUPNPDevlist(devices);
  }
  Igd(const Igd&) = delete;
  ~Igd() {
    if (kind != 0) FreeUPNPUrls(&urls);
  }
  UPNPUrls urls{};
  IGDdatas data{};
  std::array<char, 64> lan{};
  int kind = 0;  // 1: a connected gateway
};

absl::StatusOr<std::string> MapByUpnp(uint16_t port) {
  Igd igd;
  if (igd.kind != 1) return absl::UnavailableError("UPnP: no connected gateway answered");
  std::array<char, 64> external{};
  if (UPNP_GetExternalIPAddress(igd.urls.controlURL, igd.data.first.servicetype, external.data()) !=
      UPNPCOMMAND_SUCCESS) {
    return absl::UnavailableError("UPnP: the gateway does not tell its external address");
  }
  const std::string text = absl::StrCat(port);
  const int result = UPNP_AddPortMapping(igd.urls.controlURL, igd.data.first.servicetype,
                                         text.c_str(), text.c_str(), igd.lan.data(), "gdf", "TCP",
                                         nullptr, absl::StrCat(kLeaseSeconds).c_str());
  if (result != UPNPCOMMAND_SUCCESS) {
    return absl::UnavailableError(
        absl::StrCat("UPnP: the gateway refused to map port ", port, ", code ", result));
  }
  return absl::StrCat(external.data(), ":", port);
}

absl::StatusOr<std::string> MapByNatPmp(uint16_t port) {
  NatPmp natpmp;
  if (!natpmp.ready) return absl::UnavailableError("NAT-PMP: no gateway is known");
  absl::StatusOr<natpmpresp_t> address =
      Answer(natpmp.handle, sendpublicaddressrequest(&natpmp.handle));
  if (!address.ok()) return address.status();
  absl::StatusOr<natpmpresp_t> mapped = Answer(
      natpmp.handle,
      sendnewportmappingrequest(&natpmp.handle, NATPMP_PROTOCOL_TCP, port, port, kLeaseSeconds));
  if (!mapped.ok()) return mapped.status();
  return absl::StrCat(Ipv4Text(address->pnu.publicaddress.addr), ":",
                      mapped->pnu.newportmapping.mappedpublicport);
}

}  // namespace

bool IsPublicIpv4(std::string_view address) {
  in_addr parsed{};
  if (inet_pton(AF_INET, std::string(address).c_str(), &parsed) != 1) return false;
  const uint32_t ip = ntohl(parsed.s_addr);
  struct Block {
    uint32_t base;
    int bits;
  };
  constexpr Block kPrivate[] = {
      {0x00000000, 8},   // this network
      {0x0A000000, 8},   // private
      {0x64400000, 10},  // carrier-grade NAT
      {0x7F000000, 8},   // loopback
      {0xA9FE0000, 16},  // link local
      {0xAC100000, 12},  // private
      {0xC0000000, 24},  // protocol assignments
      {0xC0000200, 24},  // documentation
      {0xC0A80000, 16},  // private
      {0xC6120000, 15},  // benchmarks
      {0xC6336400, 24},  // documentation
      {0xCB007100, 24},  // documentation
      {0xE0000000, 3},   // multicast, reserved, broadcast
  };
  for (const Block& block : kPrivate) {
    if ((ip ^ block.base) >> (32 - block.bits) == 0) return false;
  }
  return true;
}

struct PortMapper::Router {
  absl::StatusOr<std::string> Map(uint16_t port) {
    absl::StatusOr<std::string> result = MapByUpnp(port);
    by_upnp = result.ok();
    if (!by_upnp) {
      absl::StatusOr<std::string> other = MapByNatPmp(port);
      by_natpmp = other.ok();
      if (!by_natpmp) {
        return absl::UnavailableError(
            absl::StrCat(result.status().message(), "; ", other.status().message()));
      }
      result = std::move(other);
    }
    const std::string host = result->substr(0, result->rfind(':'));
    if (IsPublicIpv4(host)) return result;
    return absl::UnavailableError(absl::StrCat(
        "the router's external address ", host,
        " is not public: it is behind another router; forward the port there, or go without"));
  }
  void Unmap(uint16_t port) {
    if (by_upnp) {
      Igd igd;
      if (igd.kind == 1) {
        UPNP_DeletePortMapping(igd.urls.controlURL, igd.data.first.servicetype,
                               absl::StrCat(port).c_str(), "TCP", nullptr);
      }
    }
    if (by_natpmp) {
      NatPmp natpmp;
      // A lifetime of 0 deletes (RFC 6886 3.4). An answer changes nothing: the lease ends anyway.
      if (natpmp.ready) {
        sendnewportmappingrequest(&natpmp.handle, NATPMP_PROTOCOL_TCP, port, 0, 0);
      }
    }
  }
  bool by_upnp = false;
  bool by_natpmp = false;
};

PortMapper::PortMapper(Executor& executor, uint16_t port, Changed changed)
    : executor_(executor),
      port_(port),
      changed_(std::move(changed)),
      router_(std::make_shared<Router>()),
      scope_(executor) {
  scope_.Spawn(Run(this));
}

PortMapper::~PortMapper() {
  pool_.Submit([router = router_, port = port_] { router->Unmap(port); });
}

Task<void> PortMapper::Run(PortMapper* self) {
  std::optional<absl::StatusOr<std::string>> last;
  while (true) {
    const auto map = [router = self->router_, port = self->port_] { return router->Map(port); };
    absl::StatusOr<std::string> now = co_await RunOn(self->pool_, self->executor_, map);
    if (!last || *last != now) self->changed_(now);
    const absl::Duration pause = now.ok() ? kRenew : kRetry;
    last = std::move(now);
    co_await Sleep(self->executor_, pause);
  }
}

}  // namespace gdf::net
