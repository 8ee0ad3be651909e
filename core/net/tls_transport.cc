#include "core/net/tls_transport.h"

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <functional>
#include <utility>

#include "core/base/compute_pool.h"
#include "core/base/rng.h"
#include "core/base/status_macros.h"
#include "core/net/io_world.h"
#include "core/net/listener.h"
#include "core/net/peer_table.h"
#include "core/net/relay.h"
#include "core/net/tcp_info.h"

namespace gdf::net {

struct TlsTransport::Parts {
  explicit Parts(std::shared_ptr<IoWorld> w)
      : world(std::move(w)),
        peers(std::make_shared<PeerTable>(world)),
        keep_running(asio::make_work_guard(world->io)),
        thread(1) {}

  const std::shared_ptr<IoWorld> world;
  const std::shared_ptr<PeerTable> peers;
  std::shared_ptr<Relay> relay;
  std::vector<std::string> listen_addresses;
  asio::executor_work_guard<asio::io_context::executor_type> keep_running;
  ThreadPool thread;  // joins when destroyed: last to be made, first to go
};

TlsTransport::TlsTransport(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}

absl::StatusOr<std::unique_ptr<TlsTransport>> TlsTransport::Start(
    Executor& executor, absl::Span<const uint8_t> ed25519_seed, TlsTransportOptions options) {
  GDF_RETURN_IF_ERROR(CheckCongestionControl(options.congestion_control));
  absl::StatusOr<Networks> clear = Networks::Parse(options.clear_networks);
  if (!clear.ok()) return Annotate(clear.status(), "clear_networks");
  GDF_ASSIGN_OR_RETURN(TlsContext tls, TlsContext::Create(ed25519_seed));
  SystemRng rng;
  auto world = std::make_shared<IoWorld>(executor, std::move(tls), std::move(options), *std::move(clear), rng.Next());
  world->upload.SetRate(world->options.limits.upload_bytes_per_sec, world->Now());
  world->download.SetRate(world->options.limits.download_bytes_per_sec, world->Now());
  world->relay.SetRate(world->options.relay_bytes_per_sec.value_or(0), world->Now());
  GDF_ASSIGN_OR_RETURN(std::shared_ptr<Listener> listener, Listener::Bind(world));
  auto parts = std::make_unique<Parts>(world);
  parts->listen_addresses = listener->bound();
  asio::post(world->io, [listener, weak = std::weak_ptr(parts->peers), world] {
    listener->Start([weak, world](std::shared_ptr<Connection> connection, Hello hello,
                                  std::function<void()> taken) {
      world->executor.Post(
          [weak, connection = std::move(connection), hello, taken = std::move(taken)] {
            if (const std::shared_ptr<PeerTable> peers = weak.lock()) {
              peers->OnAccepted(connection, hello);
            }
            taken();
          });
    });
  });
  parts->thread.Submit([world] { world->io.run(); });
  parts->peers->StartTicking();
  std::unique_ptr<TlsTransport> transport(new TlsTransport(std::move(parts)));
  transport->parts_->relay = std::make_shared<Relay>(
      *transport, transport->parts_->peers, world,
      [listener](asio::ip::tcp::socket socket, const NodeId& via) { listener->Adopt(std::move(socket), via); });
  transport->parts_->relay->Start();
  return transport;
}

TlsTransport::~TlsTransport() {
  parts_->relay.reset();
  parts_->peers->Shutdown();
  asio::post(parts_->world->io, [world = parts_->world] {
    while (!world->live.empty()) {
      const std::shared_ptr<IoObject> object = *world->live.begin();
      object->Stop();
    }
  });
  parts_->keep_running.reset();
}

const std::vector<std::string>& TlsTransport::listen_addresses() const {
  return parts_->listen_addresses;
}

void TlsTransport::SetRateLimits(RateLimits limits) {
  asio::post(parts_->world->io, [world = parts_->world, limits] {
    world->upload.SetRate(limits.upload_bytes_per_sec, world->Now());
    world->download.SetRate(limits.download_bytes_per_sec, world->Now());
  });
}

size_t TlsTransport::ConnectionCount(NodeId peer) const {
  return parts_->peers->ConnectionCount(peer);
}
NodeId TlsTransport::self() const { return parts_->world->tls.self(); }
Executor& TlsTransport::executor() { return parts_->world->executor; }

Registration TlsTransport::HandleStream(std::string method, StreamHandler handler,
                                        MethodOptions options) {
  return parts_->peers->methods().Add(std::move(method), std::move(handler), options);
}

Task<absl::StatusOr<std::unique_ptr<Stream>>> TlsTransport::Open(NodeId peer, std::string method,
                                                                 Priority priority,
                                                                 absl::Duration timeout) {
  return PeerTable::Open(parts_->peers, peer, std::move(method), priority, timeout);
}

Task<absl::Status> TlsTransport::Reach(NodeId peer, absl::Duration timeout) {
  return PeerTable::Reach(parts_->peers, peer, timeout);
}

void TlsTransport::SetAddresses(NodeId peer, std::vector<std::string> host_ports) {
  parts_->peers->SetAddresses(peer, std::move(host_ports));
}
void TlsTransport::SetRelays(std::vector<NodeId> relays) { parts_->peers->SetRelays(relays); }
std::vector<NodeId> TlsTransport::AnsweredInstead(NodeId peer) const {
  return parts_->peers->AnsweredInstead(peer);
}

bool TlsTransport::NobodyListens(NodeId peer) const { return parts_->peers->NobodyListens(peer); }
void TlsTransport::SetAdmission(std::function<Admission(NodeId)> policy) {
  parts_->peers->SetAdmission(std::move(policy));
}
void TlsTransport::RecheckAdmission() {
  parts_->peers->RecheckAdmission();
  parts_->relay->RecheckAdmission();
}
void TlsTransport::Disconnect(NodeId peer, absl::Status why) {
  parts_->peers->Disconnect(peer, std::move(why));
}
bool TlsTransport::Connected(NodeId peer) const { return parts_->peers->Connected(peer); }
std::vector<NodeId> TlsTransport::Peers() const { return parts_->peers->Connected(); }
Registration TlsTransport::WatchPeers(PeerWatcher watcher) {
  return parts_->peers->Watch(std::move(watcher));
}
TrafficCounters TlsTransport::counters(NodeId peer) const { return parts_->peers->counters(peer); }
TrafficCounters TlsTransport::total_counters() const { return parts_->peers->total_counters(); }
std::optional<PeerPath> TlsTransport::path(NodeId peer) const { return parts_->peers->path(peer); }

}  // namespace gdf::net
