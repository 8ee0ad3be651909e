// What everything on a transport's I/O thread shares.
#ifndef GDF_CORE_NET_IO_WORLD_H_
#define GDF_CORE_NET_IO_WORLD_H_

#include <asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>

#include "core/base/executor.h"
#include "core/net/endpoint.h"
#include "core/net/options.h"
#include "core/net/tls_context.h"
#include "core/net/token_bucket.h"

namespace gdf::net {

// Something with sockets or timers. It is in IoWorld::live for as long as it has any.
class IoObject {
 public:
  virtual ~IoObject() = default;
  // Ends it now; I/O thread. Nobody is told.
  virtual void Stop() = 0;
};

// Shared by what refers to it, since values of it may sit in the executor's queue when the
// transport is gone.
struct IoWorld {
  IoWorld(Executor& e, TlsContext t, TlsTransportOptions o, Networks c, uint64_t i)
      : executor(e), tls(std::move(t)), options(std::move(o)), clear_networks(std::move(c)), incarnation(i) {}
  absl::Duration Now() const { return executor.clock().Monotonic(); }

  // Constant.
  Executor& executor;
  const TlsContext tls;
  const TlsTransportOptions options;
  const Networks clear_networks;  // of options
  const uint64_t incarnation;
  asio::io_context io{1};

  // I/O thread only.
  TokenBucket upload;
  TokenBucket download;
  TokenBucket relay;  // of what is passed on between others
  std::set<std::shared_ptr<IoObject>> live;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_IO_WORLD_H_
