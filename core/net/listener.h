// Accepts connections on all listen addresses and brings them as far as the hello.
#ifndef GDF_CORE_NET_LISTENER_H_
#define GDF_CORE_NET_LISTENER_H_

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/net/connection.h"
#include "core/net/io_world.h"

namespace gdf::net {

class Listener final : public IoObject, public std::enable_shared_from_this<Listener> {
 public:
  // On the I/O thread. The connection waits for Start() or Close().
  using Accepted = std::function<void(std::shared_ptr<Connection>, Hello)>;

  // Binds world->options.listen. kInvalidArgument on a bad address, kUnavailable when one cannot be
  // bound.
  static absl::StatusOr<std::shared_ptr<Listener>> Bind(std::shared_ptr<IoWorld> world);

  // As "host:port", with the ports that were taken. Constant.
  const std::vector<std::string>& bound() const { return bound_; }

  // I/O thread.
  void Start(Accepted accepted);
  void Stop() override;

 private:
  explicit Listener(std::shared_ptr<IoWorld> world)
      : world_(std::move(world)), retry_(world_->io) {}
  absl::Status BindOne(const std::string& address, uint16_t preferred_port);
  void Accept(size_t index);
  void Admit(asio::ip::tcp::socket socket);
  void Leave(const asio::ip::address& address);

  const std::shared_ptr<IoWorld> world_;
  std::vector<std::string> bound_;
  Accepted accepted_;
  std::vector<asio::ip::tcp::acceptor> acceptors_;
  asio::steady_timer retry_;
  std::map<asio::ip::address, int> half_open_;
  int half_open_total_ = 0;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_LISTENER_H_
