// The real transport: TLS 1.3 over TCP with both ends pinned to their NodeIds, on an I/O thread of
// its own.
//
//   GDF_ASSIGN_OR_RETURN(auto transport, TlsTransport::Start(executor, key.private_seed(), {}));
//   transport->SetAddresses(peer, {"192.0.2.1:7450"});
#ifndef GDF_CORE_NET_TLS_TRANSPORT_H_
#define GDF_CORE_NET_TLS_TRANSPORT_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/net/options.h"
#include "core/net/transport.h"

namespace gdf::net {

class TlsTransport final : public Transport {
 public:
  // Listens and starts the I/O thread. `ed25519_seed` is the node's 32-byte private key (RFC 8032).
  // `executor` must outlive the transport. kInvalidArgument: bad key or address; kUnavailable: an
  // address cannot be bound.
  static absl::StatusOr<std::unique_ptr<TlsTransport>> Start(Executor& executor,
                                                             absl::Span<const uint8_t> ed25519_seed,
                                                             TlsTransportOptions options);
  // On the executor, or when it no longer runs. Ends all streams and handlers and joins the I/O
  // thread.
  ~TlsTransport() override;

  // "host:port" of each listen address, with the real ports.
  const std::vector<std::string>& listen_addresses() const;
  void SetRateLimits(RateLimits limits);
  // How many connections there are with `peer`, bulk ones included.
  size_t ConnectionCount(NodeId peer) const;

  NodeId self() const override;
  Executor& executor() override;
  Registration HandleStream(std::string method, StreamHandler handler,
                            MethodOptions options) override;
  Task<absl::StatusOr<std::unique_ptr<Stream>>> Open(NodeId peer, std::string method,
                                                     Priority priority,
                                                     absl::Duration timeout) override;
  Task<absl::Status> Reach(NodeId peer, absl::Duration timeout) override;
  void SetAddresses(NodeId peer, std::vector<std::string> host_ports) override;
  void SetRelays(std::vector<NodeId> relays) override;
  std::vector<NodeId> AnsweredInstead(NodeId peer) const override;
  bool NobodyListens(NodeId peer) const override;
  void SetAdmission(std::function<Admission(NodeId)> policy) override;
  void RecheckAdmission() override;
  void Disconnect(NodeId peer, absl::Status why) override;
  bool Connected(NodeId peer) const override;
  std::vector<NodeId> Peers() const override;
  Registration WatchPeers(PeerWatcher watcher) override;
  TrafficCounters counters(NodeId peer) const override;
  std::optional<PeerPath> path(NodeId peer) const override;
  TrafficCounters total_counters() const override;

 private:
  struct Parts;
  explicit TlsTransport(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_TLS_TRANSPORT_H_
