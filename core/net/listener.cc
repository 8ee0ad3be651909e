#include "core/net/listener.h"

#include <algorithm>
#include <asio/ip/v6_only.hpp>
#include <asio/post.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"
#include "core/net/endpoint.h"

namespace gdf::net {
namespace {

using asio::ip::tcp;

// When the process is out of descriptors, accepting again at once would only spin.
constexpr absl::Duration kAcceptRetry = absl::Milliseconds(200);

size_t AtLeastOne(int limit) { return static_cast<size_t>(std::max(1, limit)); }

}  // namespace

Listener::Listener(std::shared_ptr<IoWorld> world)
    : world_(std::move(world)),
      retry_(world_->io),
      half_open_(AtLeastOne(world_->options.max_half_open),
                 AtLeastOne(world_->options.max_half_open_per_address)) {}

absl::StatusOr<std::shared_ptr<Listener>> Listener::Bind(std::shared_ptr<IoWorld> world) {
  std::shared_ptr<Listener> listener(new Listener(std::move(world)));
  uint16_t port = 0;
  for (const std::string& address : listener->world_->options.listen) {
    GDF_RETURN_IF_ERROR(listener->BindOne(address, port));
    std::error_code ec;
    port = listener->acceptors_.back().local_endpoint(ec).port();
  }
  return listener;
}

absl::Status Listener::BindOne(const std::string& address, uint16_t preferred_port) {
  GDF_ASSIGN_OR_RETURN(const HostPort parsed, ParseHostPort(address));
  std::error_code ec;
  const asio::ip::address ip = asio::ip::make_address(parsed.host, ec);
  if (ec) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot listen on '", address, "': expected a numeric address, not a name"));
  }
  const bool any_port = parsed.port == 0;
  tcp::endpoint endpoint(ip, any_port ? preferred_port : parsed.port);
  tcp::acceptor acceptor(world_->io);
  acceptor.open(endpoint.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec && ip.is_v6()) acceptor.set_option(asio::ip::v6_only(true), ec);
  if (!ec) acceptor.bind(endpoint, ec);
  if (ec && any_port && preferred_port != 0) {
    endpoint.port(0);
    acceptor.bind(endpoint, ec);
  }
  if (!ec) acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ", ec.message()));
  }
  bound_.push_back(EndpointText(acceptor.local_endpoint(ec)));
  acceptors_.push_back(std::move(acceptor));
  return absl::OkStatus();
}

void Listener::Start(Accepted accepted) {
  accepted_ = std::move(accepted);
  world_->live.insert(shared_from_this());
  for (size_t i = 0; i < acceptors_.size(); ++i) Accept(i);
}

void Listener::Stop() {
  std::error_code ec;
  for (tcp::acceptor& acceptor : acceptors_) acceptor.close(ec);
  retry_.cancel();
  accepted_ = nullptr;
  world_->live.erase(shared_from_this());
}

void Listener::Accept(size_t index) {
  acceptors_[index].async_accept(
      [self = shared_from_this(), index](std::error_code ec, tcp::socket socket) {
        if (!self->acceptors_[index].is_open()) return;
        if (!ec) {
          self->Admit(std::move(socket), std::nullopt);
          return self->Accept(index);
        }
        Log(LogLevel::kWarning, "accept_failed", {{"reason", ec.message()}});
        self->retry_.expires_after(absl::ToChronoNanoseconds(kAcceptRetry));
        self->retry_.async_wait([self, index](std::error_code cancelled) {
          if (!cancelled) self->Accept(index);
        });
      });
}

void Listener::Admit(tcp::socket socket, std::optional<NodeId> via) {
  std::error_code ec;
  const asio::ip::address place = PlaceOf(socket.remote_endpoint(ec));
  if (ec) return;
  const auto connection =
      std::make_shared<Connection>(world_, std::move(socket), /*expected=*/std::nullopt, via);
  const auto [number, pushed] = half_open_.Add(place, connection);
  if (pushed) {
    Log(LogLevel::kDebug, "handshake_cut_short", {{"reason", "too many connections at once"}});
    (*pushed)->Stop();
  }
  const std::weak_ptr<Connection> weak = connection;
  const auto leave = [self = shared_from_this(), place, number = number] {
    self->half_open_.Remove(place, number);
  };
  connection->Handshake([self = shared_from_this(), weak, leave](absl::Status secured) {
    const std::shared_ptr<Connection> greeting = weak.lock();
    if (!secured.ok() || greeting == nullptr) {
      leave();
      Log(LogLevel::kDebug, "handshake_failed", {{"reason", secured}});
      return;
    }
    greeting->Greet(Purpose::kMain, [self, weak, leave](absl::StatusOr<Hello> hello) {
      const std::shared_ptr<Connection> known = weak.lock();
      if (!hello.ok() || known == nullptr || !self->accepted_) {
        leave();
        Log(LogLevel::kInfo, "hello_refused", {{"reason", hello.status()}});
        return;
      }
      self->accepted_(known, *hello, [self, leave] { asio::post(self->world_->io, leave); });
    });
  });
}

}  // namespace gdf::net
