// gdfd's configuration file (configs/gdfd.yaml): where this node keeps its state, how it is
// reached, and how much of the machine it may use. Every key is optional.
#ifndef GDF_CORE_CONFIG_NODE_CONFIG_H_
#define GDF_CORE_CONFIG_NODE_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace gdf::config {

// A host (name, IPv4 or IPv6 address) and a port; port 0 lets the system choose.
struct Endpoint {
  std::string host;
  uint16_t port = 0;

  bool operator==(const Endpoint&) const = default;
};

// "example.org:7420", "192.0.2.1:0", "[2001:db8::1]:7420". kInvalidArgument names what is wrong.
absl::StatusOr<Endpoint> ParseEndpoint(std::string_view text);
// The text that ParseEndpoint reads as the same endpoint.
std::string ToString(const Endpoint& endpoint);

// kAuto: where the system shows an NVIDIA device; kAlways: also where it shows none, as in some
// containers.
enum class GpuUse { kAuto, kAlways, kNever };
enum class LogLevel { kDebug, kInfo, kWarning, kError };
enum class LogTarget { kStderr, kJournald, kFile };

struct RemoteControlConfig {
  std::optional<Endpoint> listen;   // absent: the remote control API is off
  std::string client_certificates;  // PEM file with the certificates that may connect

  bool operator==(const RemoteControlConfig&) const = default;
};

struct NodeLimits {
  std::optional<uint64_t> upload_bytes_per_sec;    // absent: unlimited
  std::optional<uint64_t> download_bytes_per_sec;  // absent: unlimited
  // For members that cannot reach each other, within the two above; 0: no limit of its own; absent: nothing.
  std::optional<uint64_t> relay_bytes_per_sec;
  uint64_t disk_cache_bytes = uint64_t{20} << 30;  // chunks of jobs; as much again for their inputs
  std::optional<uint64_t> memory_bytes;            // for tasks; absent: 80 % of the machine's
  int64_t cpu_threads = 0;                         // of each task at most; 0: all
  int64_t tasks = 1;                               // jobs that run at the same time, and samples beside them
  GpuUse gpus = GpuUse::kAuto;                     // whether they are looked for, and lent to tasks

  bool operator==(const NodeLimits&) const = default;
};

struct LogConfig {
  LogLevel level = LogLevel::kInfo;
  LogTarget target = LogTarget::kStderr;
  std::string file;  // kFile

  bool operator==(const LogConfig&) const = default;
};

struct NodeConfig {
  std::string name;                               // shown to people; empty: the host's name
  std::string state_dir = "/var/lib/gdf";         // keys, database, chunks, checkpoints
  std::vector<Endpoint> listen = {{"::", 7420}};  // for other nodes; "::" takes IPv4 too
  std::vector<Endpoint> advertise;                // told to others; empty: what is found out
  std::string control_socket = "/run/gdf/control.sock";
  std::string operator_group;  // may change things over the socket; empty: only the owner
  RemoteControlConfig remote_control;
  NodeLimits limits;
  LogConfig log;
  std::vector<std::string> clear_networks;  // ADDRESS/BITS: bulk data goes without TLS there, if the peer agrees
  std::string congestion_control;  // of TCP between nodes; empty: BBR where the kernel has it, cubic nearby; "system": its default
  bool port_mapping = true;  // ask the router by UPnP or NAT-PMP
  std::string worker;        // the gdf-worker program; empty: beside gdfd

  bool operator==(const NodeConfig&) const = default;
};

// Parses and validates gdfd.yaml; an empty text gives the defaults. kInvalidArgument with every
// problem, one a line, as ParseJobSpec. Opens no file that the text names.
absl::StatusOr<NodeConfig> ParseNodeConfig(std::string_view text, std::string_view filename);

}  // namespace gdf::config

#endif  // GDF_CORE_CONFIG_NODE_CONFIG_H_
