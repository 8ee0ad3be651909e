#include "gdfd/machine.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "core/base/name.h"
#include "core/net/port_mapping.h"

namespace gdf {

Machine DescribeMachine() {
  Machine machine;
  machine.cpu_threads = std::max(1u, std::thread::hardware_concurrency());
  machine.memory_bytes =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  return machine;
}

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  std::string out;
  for (const char* c = name; *c != '\0' && out.size() < kMaxNameBytes; ++c) {
    const bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
    if (letter || (!out.empty() && (*c == '.' || *c == '-' || *c == '_'))) out.push_back(*c);
  }
  return out.empty() ? "node" : out;
}

std::vector<std::string> MachineAddresses() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {"127.0.0.1"};
  std::vector<std::string> v4, v6, loopback;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    char text[INET6_ADDRSTRLEN] = {};
    if (at->ifa_addr->sa_family == AF_INET) {
      inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr, text, sizeof(text));
      ((at->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : v4).push_back(text);
    } else if (at->ifa_addr->sa_family == AF_INET6) {
      const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(at->ifa_addr)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(&address)) continue;
      inet_ntop(AF_INET6, &address, text, sizeof(text));
      ((at->ifa_flags & IFF_LOOPBACK) != 0 ? loopback : v6).push_back(text);
    }
  }
  freeifaddrs(list);
  v4.insert(v4.end(), v6.begin(), v6.end());
  return v4.empty() ? loopback : v4;
}

bool IsReachedThroughRouter(const std::string& host) {
  if (host == "::" || host == "0.0.0.0") return true;
  in_addr address{};
  if (inet_pton(AF_INET, host.c_str(), &address) != 1) return false;
  return (ntohl(address.s_addr) >> 24) != 127 && !net::IsPublicIpv4(host);
}

}  // namespace gdf
