// What this machine is: read from the operating system once at start.
#ifndef GDF_GDFD_MACHINE_H_
#define GDF_GDFD_MACHINE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace gdf {

struct Machine {
  uint32_t cpu_threads = 1;
  uint64_t memory_bytes = 0;
};

Machine DescribeMachine();
// The host's name, cut and cleaned so that it is a valid node name; "node" when nothing is left.
std::string HostName();
// Addresses of its network interfaces that are up, IPv4 first, link-local ones left out; loopback ones only when there are
// no others.
std::vector<std::string> MachineAddresses();

// Whether a router of the local network can forward to a socket bound to this host: every address of the machine, or an
// IPv4 address that is neither loopback nor public.
bool IsReachedThroughRouter(const std::string& host);

}  // namespace gdf

#endif  // GDF_GDFD_MACHINE_H_
