#include "core/net/dialer.h"
#include "core/base/text.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gdf::net {
namespace {

using asio::ip::tcp;

constexpr absl::Duration kStagger =
    absl::Milliseconds(250);           // RFC 8305, "Connection Attempt Delay"
constexpr size_t kMaxCandidates = 16;  // addresses come from peers; a name may have many

}  // namespace

Dialer::Dialer(std::shared_ptr<IoWorld> world, NodeId peer, Purpose purpose,
               std::vector<std::string> addresses, Done done, uint64_t circuit)
    : world_(std::move(world)),
      peer_(peer),
      purpose_(purpose),
      circuit_(circuit),
      addresses_(std::move(addresses)),
      done_(std::move(done)),
      resolver_(world_->io),
      stagger_(world_->io),
      deadline_(world_->io) {}

void Dialer::Start() {
  world_->live.insert(shared_from_this());
  deadline_.expires_after(absl::ToChronoNanoseconds(world_->options.handshake_timeout));
  deadline_.async_wait([self = shared_from_this()](std::error_code ec) {
    if (ec || self->over_) return;
    self->failures_.push_back(absl::StrCat(
        "no answer within ", HumanDuration(self->world_->options.handshake_timeout)));
    self->Finish(absl::UnavailableError(
        absl::StrCat("node ", self->peer_.Short(),
                     " is not reachable: ", absl::StrJoin(self->failures_, "; "))));
  });
  for (const std::string& address : addresses_) Resolve(address);
  StartNext();
}

void Dialer::Stop() {
  if (over_) return;
  done_ = nullptr;
  Finish(absl::CancelledError("shutting down"));
}

void Dialer::Resolve(const std::string& address) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) {
    failures_.emplace_back(parsed.status().message());
    return;
  }
  std::error_code ec;
  const asio::ip::address numeric = asio::ip::make_address(parsed->host, ec);
  if (!ec) {
    waiting_.emplace_back(numeric, parsed->port);
    return;
  }
  ++resolving_;
  resolver_.async_resolve(
      parsed->host, absl::StrCat(parsed->port),
      [self = shared_from_this(), address](std::error_code failed,
                                           tcp::resolver::results_type found) {
        --self->resolving_;
        if (self->over_) return;
        if (failed) self->failures_.push_back(absl::StrCat(address, ": ", failed.message()));
        for (const auto& entry : found) self->waiting_.push_back(entry.endpoint());
        if (self->running_ == 0) self->StartNext();
        self->FinishIfOver();
      });
}

void Dialer::StartNext() {
  if (over_ || won_) return;
  if (waiting_.size() > kMaxCandidates) waiting_.resize(kMaxCandidates);
  if (waiting_.empty()) return FinishIfOver();
  const tcp::endpoint endpoint = waiting_.front();
  waiting_.pop_front();
  stagger_.expires_after(absl::ToChronoNanoseconds(kStagger));
  stagger_.async_wait([self = shared_from_this()](std::error_code ec) {
    if (!ec) self->StartNext();
  });
  Connect(endpoint);
}

void Dialer::Connect(const tcp::endpoint& endpoint) {
  ++running_;
  auto socket = std::make_shared<tcp::socket>(world_->io);
  connecting_.push_back(socket);
  socket->async_connect(
      endpoint, [self = shared_from_this(), socket, endpoint](std::error_code ec) {
        if (self->over_ || self->won_) return;
        if (ec == asio::error::connection_refused) ++self->refusals_;
        if (ec)
          return self->AttemptFailed(absl::StrCat(EndpointText(endpoint), ": ", ec.message()));
        self->Secure(std::move(*socket));
      });
}

void Dialer::Secure(tcp::socket socket) {
  auto connection = std::make_shared<Connection>(world_, std::move(socket), peer_);
  securing_.push_back(connection);
  connection->Handshake(
      [self = shared_from_this(), weak = std::weak_ptr(connection)](absl::Status status) {
        const std::shared_ptr<Connection> secured = weak.lock();
        if (self->over_ || self->won_ || secured == nullptr) return;
        if (status.ok()) return self->Won(secured);
        if (!secured->peer().zero()) self->found_.others.push_back(secured->peer());
        self->AttemptFailed(std::string(status.message()));
      });
}

// Only the winner says hello, so that the peer never takes up a connection that is about to be
// dropped.
void Dialer::Won(const std::shared_ptr<Connection>& connection) {
  won_ = true;
  stagger_.cancel();
  for (const std::shared_ptr<Connection>& loser : securing_) {
    if (loser != connection) loser->Stop();
  }
  securing_ = {connection};
  for (const auto& socket : connecting_) {
    std::error_code ec;
    socket->close(ec);
  }
  connecting_.clear();
  auto greeted = [self = shared_from_this(),
                  weak = std::weak_ptr(connection)](absl::StatusOr<Hello> hello) {
    const std::shared_ptr<Connection> winner = weak.lock();
    if (self->over_ || !winner) return;
    self->securing_.clear();
    if (hello.ok()) {
      self->Finish(Dialled{winner, *hello});
    } else {
      self->Finish(hello.status());
    }
  };
  connection->Greet(purpose_, std::move(greeted), circuit_);
}

void Dialer::AttemptFailed(std::string reason) {
  --running_;
  failures_.push_back(std::move(reason));
  StartNext();
}

void Dialer::FinishIfOver() {
  if (over_ || won_ || running_ > 0 || resolving_ > 0 || !waiting_.empty()) return;
  Finish(absl::UnavailableError(
      absl::StrCat("node ", peer_.Short(), " is not reachable: ",
                   failures_.empty() ? "no address is known" : absl::StrJoin(failures_, "; "))));
}

void Dialer::Finish(absl::StatusOr<Dialled> result) {
  over_ = true;
  const std::shared_ptr<Dialer> self = shared_from_this();
  world_->live.erase(self);
  resolver_.cancel();
  stagger_.cancel();
  deadline_.cancel();
  std::error_code ec;
  for (const auto& socket : connecting_) socket->close(ec);
  for (const auto& connection : securing_) connection->Stop();
  connecting_.clear();
  securing_.clear();
  found_.nobody_listens = !result.ok() && refusals_ > 0 && refusals_ == failures_.size();
  if (Done done = std::exchange(done_, nullptr)) done(std::move(result), std::move(found_));
}

}  // namespace gdf::net
