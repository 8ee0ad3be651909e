#include "core/net/relay.h"

#include <algorithm>
#include <asio/post.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/byte_io.h"
#include "core/base/log.h"
#include "core/base/rng.h"
#include "core/base/status_macros.h"

namespace gdf::net {
namespace {

constexpr char kRequest[] = "net.relay";
constexpr char kOffer[] = "net.relay.offer";
// A relay's answer takes the callee's dial.
constexpr absl::Duration kRequestTimeout = absl::Seconds(10);
constexpr absl::Duration kOfferTimeout = absl::Seconds(8);
// Two blocks of 64 KiB each.
constexpr size_t kMaxCircuits = 128;
// A main connection, bulk ones and one that dies, with each of a job's members.
constexpr size_t kMaxCircuitsPerCaller = 32;

constexpr size_t kNumberBytes = sizeof(uint64_t);

absl::Status CheckSize(std::string_view bytes, size_t size, const char* what) {
  if (bytes.size() == size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " of ", bytes.size(), " bytes, expected ", size));
}

// The handshake with `peer` through a circuit. I/O thread.
void GreetThrough(const std::shared_ptr<IoWorld>& world, asio::ip::tcp::socket socket, const NodeId& relay,
                  const NodeId& peer, Purpose purpose, std::function<void(absl::StatusOr<Dialled>)> done) {
  const auto connection = std::make_shared<Connection>(world, std::move(socket), peer, relay);
  connection->Handshake([weak = std::weak_ptr(connection), purpose, done = std::move(done)](absl::Status secured) {
    const std::shared_ptr<Connection> greeting = weak.lock();
    if (!secured.ok() || greeting == nullptr) return done(secured.ok() ? absl::UnavailableError("closed") : secured);
    greeting->Greet(purpose, [weak, done](absl::StatusOr<Hello> hello) {
      const std::shared_ptr<Connection> greeted = weak.lock();
      if (!hello.ok() || greeted == nullptr) return done(hello.ok() ? absl::UnavailableError("closed") : hello.status());
      done(Dialled{greeted, *hello});
    });
  });
}

}  // namespace

Relay::Relay(Transport& transport, std::shared_ptr<PeerTable> peers, std::shared_ptr<IoWorld> world, Adopt adopt)
    : transport_(transport),
      peers_(std::move(peers)),
      world_(std::move(world)),
      adopt_(std::move(adopt)),
      tasks_(world_->executor) {}

void Relay::Start() {
  peers_->SetDetour([weak = weak_from_this()](NodeId peer, Purpose purpose, std::vector<NodeId> relays, PeerTable::DetourDone done) {
    const std::shared_ptr<Relay> self = weak.lock();
    if (self == nullptr) return;
    self->tasks_.Spawn(self->Dial(peer, purpose, std::move(relays), std::move(done)));
  });
  auto request = [this](NodeId caller, Buffer message) { return OnRequest(caller, std::move(message)); };
  auto offer = [this](NodeId relay, Buffer message) { return OnOffer(relay, std::move(message)); };
  const MethodOptions small{.max_message_bytes = Digest::kSize + kNumberBytes};
  methods_.push_back(transport_.HandleCall(kRequest, std::move(request), small));
  methods_.push_back(transport_.HandleCall(kOffer, std::move(offer), small));
  peers_->SetSeat([weak = weak_from_this()](const std::shared_ptr<Connection>& connection, const Hello& hello) {
    if (const std::shared_ptr<Relay> self = weak.lock()) self->Seat(connection, hello);
  });
}

// --- The caller ---

Task<void> Relay::Dial(NodeId peer, Purpose purpose, std::vector<NodeId> relays, PeerTable::DetourDone done) {
  absl::Status outcome = absl::UnavailableError("there is no relay");
  for (const NodeId& relay : relays) {
    absl::StatusOr<Dialled> dialled = co_await DialBy(relay, peer, purpose);
    if (dialled.ok()) {
      done(*std::move(dialled));
      co_return;
    }
    outcome = Annotate(dialled.status(), absl::StrCat("by relay ", relay.Short()));
  }
  done(std::move(outcome));
}

Task<absl::StatusOr<Dialled>> Relay::DialBy(NodeId relay, NodeId peer, Purpose purpose) {
  absl::StatusOr<Buffer> answer = co_await transport_.Call(relay, kRequest, Buffer(ByteWriter().Bytes(peer.digest().bytes).Take()), kRequestTimeout);
  GDF_CO_RETURN_IF_ERROR(answer.status());
  GDF_CO_RETURN_IF_ERROR(CheckSize(answer->view(), kNumberBytes, "a circuit's number"));
  OneShot<absl::StatusOr<Dialled>> greeted(world_->executor);
  auto entered = [world = world_, relay, peer, purpose, greeted](absl::StatusOr<asio::ip::tcp::socket> socket) {
    if (!socket.ok()) {
      greeted.Set(socket.status());
      return;
    }
    GreetThrough(world, *std::move(socket), relay, peer, purpose, [greeted](absl::StatusOr<Dialled> dialled) {
      greeted.Set(std::move(dialled));
    });
  };
  Enter(relay, ByteReader(answer->view()).U64(), std::move(entered));
  co_return co_await greeted.Wait();
}

void Relay::Enter(const NodeId& relay, uint64_t number, Connection::SocketDone done) {
  asio::post(world_->io, [world = world_, relay, number, addresses = peers_->AddressesOf(relay), done = std::move(done)]() mutable {
    auto dialled = [done = std::move(done)](const absl::StatusOr<Dialled>& outer, const Findings&) {
      if (!outer.ok()) return done(outer.status());
      outer->connection->Surrender(done);
    };
    std::make_shared<Dialer>(world, relay, Purpose::kCircuit, std::move(addresses), std::move(dialled), number)->Start();
  });
}

// --- The relay ---

absl::Status Relay::MayRelay(const NodeId& caller, const NodeId& callee) const {
  if (!world_->options.relay_bytes_per_sec) {
    return absl::FailedPreconditionError("this node is no relay (relay in gdfd.yaml)");
  }
  if (caller == callee || peers_->AdmissionOf(callee) != Admission::kMember) {
    return absl::PermissionDeniedError(absl::StrCat("node ", callee.Short(), " is not to be called through this one"));
  }
  if (!peers_->ReachedDirectly(callee)) {
    return absl::UnavailableError(absl::StrCat("node ", callee.Short(), " is not connected with it"));
  }
  const auto of_caller = std::count_if(circuits_.begin(), circuits_.end(), [&](const auto& circuit) { return circuit.second.ends[0] == caller; });
  if (circuits_.size() >= kMaxCircuits || static_cast<size_t>(of_caller) >= kMaxCircuitsPerCaller) {
    return absl::ResourceExhaustedError(absl::StrCat("it relays ", circuits_.size(), " circuits already, ", of_caller, " of them for this node"));
  }
  return absl::OkStatus();
}

Task<absl::StatusOr<Buffer>> Relay::OnRequest(NodeId caller, Buffer request) {
  GDF_CO_RETURN_IF_ERROR(CheckSize(request.view(), Digest::kSize, "a request to relay"));
  const NodeId callee(ByteReader(request.view()).Digest());
  GDF_CO_RETURN_IF_ERROR(MayRelay(caller, callee));
  const uint64_t number = Open(caller, callee);
  Buffer offer(ByteWriter().Bytes(caller.digest().bytes).U64(number).Take());
  const absl::StatusOr<Buffer> taken = co_await transport_.Call(callee, kOffer, std::move(offer), kOfferTimeout);
  if (!taken.ok()) {
    Close(number);
    co_return taken.status();
  }
  co_return Buffer(ByteWriter().U64(number).Take());
}

uint64_t Relay::Open(const NodeId& caller, const NodeId& callee) {
  SystemRng rng;
  const uint64_t number = rng.Next();
  auto ended = [weak = weak_from_this(), world = world_, number] {
    world->executor.Post([weak, number] {
      if (const std::shared_ptr<Relay> self = weak.lock()) self->circuits_.erase(number);
    });
  };
  Joined joined{{caller, callee}, {}, std::make_shared<Circuit>(world_, std::move(ended))};
  asio::post(world_->io, [circuit = joined.circuit] { circuit->Start(); });
  circuits_[number] = std::move(joined);
  return number;
}

void Relay::Close(uint64_t number) {
  const auto it = circuits_.find(number);
  if (it == circuits_.end()) return;
  asio::post(world_->io, [circuit = it->second.circuit] { circuit->Stop(); });
  circuits_.erase(it);
}

void Relay::Seat(const std::shared_ptr<Connection>& connection, const Hello& hello) {
  const auto it = circuits_.find(hello.circuit);
  int end = -1;
  for (int i : {0, 1}) {
    if (it != circuits_.end() && it->second.ends[i] == connection->peer() && !it->second.seated[i]) end = i;
  }
  if (end < 0) return connection->Close(absl::NotFoundError("there is no such circuit"));
  it->second.seated[end] = true;
  asio::post(world_->io, [connection, circuit = it->second.circuit, end] {
    connection->Surrender([circuit, end](absl::StatusOr<asio::ip::tcp::socket> socket) {
      if (socket.ok()) circuit->Take(end, *std::move(socket));
    });
  });
}

void Relay::RecheckAdmission() {
  std::vector<uint64_t> worse;
  for (const auto& [number, joined] : circuits_) {
    const auto member = [this](const NodeId& node) { return peers_->AdmissionOf(node) == Admission::kMember; };
    if (!std::all_of(joined.ends.begin(), joined.ends.end(), member)) worse.push_back(number);
  }
  for (const uint64_t number : worse) Close(number);
}

// --- The callee ---

Task<absl::StatusOr<Buffer>> Relay::OnOffer(NodeId relay, Buffer request) {
  GDF_CO_RETURN_IF_ERROR(CheckSize(request.view(), Digest::kSize + kNumberBytes, "the offer of a circuit"));
  ByteReader in(request.view());
  const NodeId caller(in.Digest());
  if (!peers_->IsRelay(relay)) {
    co_return absl::PermissionDeniedError(absl::StrCat("node ", relay.Short(), " is no relay of this network"));
  }
  if (peers_->AdmissionOf(caller) != Admission::kMember) {
    co_return absl::PermissionDeniedError(absl::StrCat("node ", caller.Short(), " is not admitted to this network"));
  }
  OneShot<absl::Status> entered(world_->executor);
  auto enter = [adopt = adopt_, relay, entered](absl::StatusOr<asio::ip::tcp::socket> socket) {
    if (socket.ok()) adopt(*std::move(socket), relay);
    entered.Set(socket.status());
  };
  Enter(relay, in.U64(), std::move(enter));
  const absl::Status outcome = co_await entered.Wait();
  if (!outcome.ok()) co_return outcome;
  co_return Buffer();
}

}  // namespace gdf::net
