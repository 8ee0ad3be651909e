// Asks the home router, by UPnP IGD or NAT-PMP, to forward our port. The answer comes
// unauthenticated from the local network, and only ever becomes an address that we advertise.
#ifndef GDF_CORE_NET_PORT_MAPPING_H_
#define GDF_CORE_NET_PORT_MAPPING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/base/compute_pool.h"
#include "core/base/executor.h"
#include "core/base/task.h"

namespace gdf::net {

// Whether others on the Internet can use this IPv4 address (RFC 6890): a router behind another one,
// or behind the provider's, reports one that they cannot.
bool IsPublicIpv4(std::string_view address);

// Keeps one TCP port mapped for as long as it lives. On the executor only; the libraries' blocking
// calls run on a thread of its own.
class PortMapper {
 public:
  // The external "host:port", or why there is none (kUnavailable). On the executor, at each change.
  using Changed = std::function<void(const absl::StatusOr<std::string>&)>;

  PortMapper(Executor& executor, uint16_t port, Changed changed);
  // Gives the mapping back; may wait some seconds for the router.
  ~PortMapper();

 private:
  struct Router;
  static Task<void> Run(PortMapper* self);

  Executor& executor_;
  const uint16_t port_;
  const Changed changed_;
  const std::shared_ptr<Router> router_;  // on the thread of pool_ only
  ThreadPool pool_{1};
  TaskScope scope_;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_PORT_MAPPING_H_
