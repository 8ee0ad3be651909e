// Two nodes that cannot reach each other talk through a member that both reach: a circuit. This is a node's part in it,
// as any of the three.
//
//   caller                      relay                          callee
//   net.relay(callee)  ------>  numbers a circuit
//                               net.relay.offer(caller, number)  ---->
//                               <------  dials: hello with the number
//   <------  the number
//   dials: hello with the number  ---->
//   then both sockets are joined (circuit.h), and the caller and the callee shake hands as on a direct connection.
#ifndef GDF_CORE_NET_RELAY_H_
#define GDF_CORE_NET_RELAY_H_

#include <array>
#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "core/net/circuit.h"
#include "core/net/dialer.h"
#include "core/net/peer_table.h"
#include "core/net/transport.h"

namespace gdf::net {

// On the executor.
class Relay final : public std::enable_shared_from_this<Relay> {
 public:
  // `adopt`, on the I/O thread: takes a socket as if it had been accepted.
  using Adopt = std::function<void(asio::ip::tcp::socket socket, const NodeId& via)>;
  // `transport` must outlive it.
  Relay(Transport& transport, std::shared_ptr<PeerTable> peers, std::shared_ptr<IoWorld> world, Adopt adopt);
  // Serves relays and callers from now on, and lets the table dial by way of relays.
  void Start();

  // Of a connection that has said a hello of kCircuit.
  void Seat(const std::shared_ptr<Connection>& connection, const Hello& hello);
  // Ends the circuits of nodes that are members no longer.
  void RecheckAdmission();

 private:
  struct Joined {
    std::array<NodeId, 2> ends;  // caller, callee
    std::array<bool, 2> seated{};
    std::shared_ptr<Circuit> circuit;
  };

  Task<void> Dial(NodeId peer, Purpose purpose, std::vector<NodeId> relays, PeerTable::DetourDone done);
  Task<absl::StatusOr<Dialled>> DialBy(NodeId relay, NodeId peer, Purpose purpose);
  Task<absl::StatusOr<Buffer>> OnRequest(NodeId caller, Buffer request);
  Task<absl::StatusOr<Buffer>> OnOffer(NodeId relay, Buffer request);
  absl::Status MayRelay(const NodeId& caller, const NodeId& callee) const;
  uint64_t Open(const NodeId& caller, const NodeId& callee);
  void Close(uint64_t number);
  // The socket of a circuit that `relay` has numbered; `done` on the I/O thread.
  void Enter(const NodeId& relay, uint64_t number, Connection::SocketDone done);

  Transport& transport_;
  const std::shared_ptr<PeerTable> peers_;
  const std::shared_ptr<IoWorld> world_;
  const Adopt adopt_;
  std::map<uint64_t, Joined> circuits_;  // by number
  std::vector<Registration> methods_;
  TaskScope tasks_;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_RELAY_H_
