#include "gdfd/services/ping.h"

#include "core/base/status_macros.h"

namespace gdf::services {
namespace {

constexpr char kMethod[] = "gdf.ping";

Task<absl::StatusOr<Buffer>> Answer(NodeId, Buffer) { co_return Buffer(); }

}  // namespace

net::Registration ServePings(net::Transport& transport) {
  return transport.HandleCall(kMethod, Answer, {.max_message_bytes = 0});
}

Task<absl::StatusOr<absl::Duration>> Ping(net::Transport& transport, NodeId peer,
                                          absl::Duration timeout) {
  const absl::Status reached = co_await transport.Reach(peer, timeout);
  GDF_CO_RETURN_IF_ERROR(reached);
  const Clock& clock = transport.executor().clock();
  const absl::Duration begun = clock.Monotonic();
  absl::StatusOr<Buffer> reply = co_await transport.Call(peer, kMethod, Buffer(), timeout);
  GDF_CO_RETURN_IF_ERROR(reply.status());
  co_return clock.Monotonic() - begun;
}

}  // namespace gdf::services
