// One node: opens its state folder, puts the parts together and runs them until it is told to stop.
#ifndef GDF_GDFD_DAEMON_H_
#define GDF_GDFD_DAEMON_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "core/config/node_config.h"

namespace gdf {

// Created, run and destroyed on one thread, which becomes the protocol thread.
class Daemon {
 public:
  // Takes the state folder, binds all sockets and takes up jobs where they were left. kUnavailable when another gdfd has
  // the folder or an address is taken; kPermissionDenied for a key file that others can read or a folder that they can
  // change; kDataLoss for a damaged state, or one whose key is gone.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(config::NodeConfig config);
  ~Daemon();

  // Calls `on_ready` once the control API answers, then runs until Stop(). Returns why it ended: OK after Stop(),
  // kAborted when it must be started again (left its network, took a new key).
  absl::Status Run(const std::function<void()>& on_ready);
  void Stop();  // any thread

 private:
  struct Parts;
  explicit Daemon(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace gdf

#endif  // GDF_GDFD_DAEMON_H_
