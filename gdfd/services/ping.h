// A message to another node and back, through both programs.
#ifndef GDF_GDFD_SERVICES_PING_H_
#define GDF_GDFD_SERVICES_PING_H_

#include "absl/status/statusor.h"
#include "core/base/task.h"
#include "core/net/transport.h"

namespace gdf::services {

// Answers the network's members until the registration is destroyed.
net::Registration ServePings(net::Transport& transport);

// How long it took; the connection is there before the time begins. The errors of Transport::Call.
Task<absl::StatusOr<absl::Duration>> Ping(net::Transport& transport, NodeId peer,
                                          absl::Duration timeout);

}  // namespace gdf::services

#endif  // GDF_GDFD_SERVICES_PING_H_
