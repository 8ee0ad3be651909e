// A relay's part of a circuit: two sockets, each of which gets what comes out of the other. The ends speak TLS with each
// other through it, so that the relay sees no more than how much passes, and when.
#ifndef GDF_CORE_NET_CIRCUIT_H_
#define GDF_CORE_NET_CIRCUIT_H_

#include <array>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/net/io_world.h"

namespace gdf::net {

// I/O thread. Ends when both ends have finished, one has failed, nothing has passed for a minute, or one has not come
// within the handshake's time.
class Circuit final : public IoObject, public std::enable_shared_from_this<Circuit> {
 public:
  // `ended`: once, on the I/O thread, unless Stop() was called before.
  Circuit(std::shared_ptr<IoWorld> world, std::function<void()> ended);
  void Start();
  // One end, 0 or 1, has come; each comes once.
  void Take(int end, asio::ip::tcp::socket socket);
  void Stop() override;

 private:
  void Pump(int from);
  // The rest of what was read, from byte `at` on.
  void PassOn(int from, size_t at, size_t size);
  // Nothing more comes from there.
  void Finished(int from);
  void WatchIdle();
  void End();

  const std::shared_ptr<IoWorld> world_;
  std::function<void()> ended_;
  struct Side {
    explicit Side(asio::io_context& io) : pause(io) {}
    std::optional<asio::ip::tcp::socket> socket;
    std::vector<uint8_t> block;  // what was read here and goes to the other side
    asio::steady_timer pause;    // until the rate limits let more pass
    bool finished = false;
  };
  std::array<Side, 2> sides_;
  asio::steady_timer timer_;  // until both have come, then idleness
  absl::Duration last_passed_;
  bool over_ = false;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_CIRCUIT_H_
