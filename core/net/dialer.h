// Connects to a node at the first of its addresses that answers with the right key.
#ifndef GDF_CORE_NET_DIALER_H_
#define GDF_CORE_NET_DIALER_H_

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/net/connection.h"
#include "core/net/endpoint.h"
#include "core/net/io_world.h"

namespace gdf::net {

struct Dialled {
  std::shared_ptr<Connection> connection;  // waits for Start() or Close()
  Hello hello;
};

// What a dial comes upon beside a connection.
struct Findings {
  std::vector<NodeId> others;   // who answered at the peer's addresses with keys of their own
  bool nobody_listens = false;  // every address refused
};

// I/O thread. Addresses are tried in order, the next one 250 ms after the last or as soon as it has
// failed (RFC 8305); the first finished TLS handshake with the right key wins.
class Dialer final : public IoObject, public std::enable_shared_from_this<Dialer> {
 public:
  // kUnavailable with the reason for each address; or what the peer itself refused with.
  using Done = std::function<void(absl::StatusOr<Dialled>, Findings)>;

  // `circuit`: of Purpose::kCircuit.
  Dialer(std::shared_ptr<IoWorld> world, NodeId peer, Purpose purpose,
         std::vector<std::string> addresses, Done done, uint64_t circuit = 0);
  void Start();
  void Stop() override;

 private:
  void Resolve(const std::string& address);
  void StartNext();
  void Connect(const asio::ip::tcp::endpoint& endpoint);
  void Secure(asio::ip::tcp::socket socket);
  void Won(const std::shared_ptr<Connection>& connection);
  void AttemptFailed(std::string reason);
  void FinishIfOver();
  void Finish(absl::StatusOr<Dialled> result);

  const std::shared_ptr<IoWorld> world_;
  const NodeId peer_;
  const Purpose purpose_;
  const uint64_t circuit_;
  std::vector<std::string> addresses_;
  Done done_;
  asio::ip::tcp::resolver resolver_;
  asio::steady_timer stagger_;
  asio::steady_timer deadline_;
  std::deque<asio::ip::tcp::endpoint> waiting_;
  std::vector<std::shared_ptr<asio::ip::tcp::socket>> connecting_;
  std::vector<std::shared_ptr<Connection>> securing_;
  std::vector<std::string> failures_;
  size_t refusals_ = 0;  // of failures_
  Findings found_;
  int resolving_ = 0;
  int running_ = 0;
  bool won_ = false;
  bool over_ = false;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_DIALER_H_
