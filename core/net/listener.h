// Accepts connections on all listen addresses and brings them as far as the hello. Those that have
// not shown who they are, or that nobody has looked at yet, are bounded in all and by address.
#ifndef GDF_CORE_NET_LISTENER_H_
#define GDF_CORE_NET_LISTENER_H_

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/net/connection.h"
#include "core/net/crowd.h"
#include "core/net/io_world.h"

namespace gdf::net {

class Listener final : public IoObject, public std::enable_shared_from_this<Listener> {
 public:
  // On the I/O thread. The connection waits for Start() or Close(). `taken`, any thread: from now on
  // it counts among the peer's.
  using Accepted =
      std::function<void(std::shared_ptr<Connection>, Hello, std::function<void()> taken)>;

  // Binds world->options.listen. kInvalidArgument on a bad address, kUnavailable when one cannot be
  // bound.
  static absl::StatusOr<std::shared_ptr<Listener>> Bind(std::shared_ptr<IoWorld> world);

  // As "host:port", with the ports that were taken. Constant.
  const std::vector<std::string>& bound() const { return bound_; }

  // I/O thread.
  void Start(Accepted accepted);
  // A socket that this node dialled on behalf of who calls through it, as if it had been accepted.
  void Adopt(asio::ip::tcp::socket socket, const NodeId& via) { Admit(std::move(socket), via); }
  void Stop() override;

 private:
  explicit Listener(std::shared_ptr<IoWorld> world);
  absl::Status BindOne(const std::string& address, uint16_t preferred_port);
  void Accept(size_t index);
  void Admit(asio::ip::tcp::socket socket, std::optional<NodeId> via);

  const std::shared_ptr<IoWorld> world_;
  std::vector<std::string> bound_;
  Accepted accepted_;
  std::vector<asio::ip::tcp::acceptor> acceptors_;
  asio::steady_timer retry_;
  Crowd<asio::ip::address, std::shared_ptr<Connection>> half_open_;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_LISTENER_H_
