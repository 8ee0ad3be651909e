// Listens for the control API: on a Unix socket, where the kernel says who calls, and when
// configured on TLS with client certificates.
#ifndef GDF_GDFD_SERVICES_CONTROL_SERVER_H_
#define GDF_GDFD_SERVICES_CONTROL_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "gdfd/node.h"

namespace gdf::services {

// Callers on the socket: this process's user, root and members of the operator group may do
// everything, all others may look. Remote callers hold a certificate that the owner listed, and may
// do everything.
class ControlServer {
 public:
  // Serves at once, until destroyed. `node` outlives the server, and its executor runs until the
  // server is gone. kUnavailable when a socket or address cannot be listened on; kInvalidArgument
  // for certificates that cannot be read or an unknown group.
  static absl::StatusOr<std::unique_ptr<ControlServer>> Start(Node& node);
  ~ControlServer();

  // Ends running calls and accepts no more. Any thread but the executor's.
  void Shutdown();
  const std::string& remote_address() const;  // "host:port", empty when off

 private:
  class Impl;
  explicit ControlServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gdf::services

#endif  // GDF_GDFD_SERVICES_CONTROL_SERVER_H_
