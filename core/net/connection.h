// One connection on the I/O thread: handshake, hello, frames in and out, rate limits,
// keepalive. Streams and admission are the executor's business (link.h).
#ifndef GDF_CORE_NET_CONNECTION_H_
#define GDF_CORE_NET_CONNECTION_H_

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "core/net/channel.h"
#include "core/net/frame.h"
#include "core/net/io_world.h"
#include "core/net/write_queue.h"

namespace gdf::net {

class Connection;

// Called on the executor.
class ConnectionEvents {
 public:
  virtual ~ConnectionEvents() = default;
  virtual void OnFrame(const std::shared_ptr<Connection>& connection, Frame frame) = 0;
  // Once, unless Close() was called before; the connection is gone.
  virtual void OnClosed(const std::shared_ptr<Connection>& connection, const absl::Status& why) = 0;
};

class Connection final : public IoObject, public std::enable_shared_from_this<Connection> {
 public:
  using Done = std::function<void(absl::Status)>;
  using HelloDone = std::function<void(absl::StatusOr<Hello>)>;
  using SocketDone = std::function<void(absl::StatusOr<asio::ip::tcp::socket>)>;

  // `socket` is connected. `expected`: whom the dialler wants; nullopt on the accepting side. `via`: the
  // relay at the other end of `socket`, when it is a circuit.
  Connection(std::shared_ptr<IoWorld> world, asio::ip::tcp::socket socket,
             std::optional<NodeId> expected, std::optional<NodeId> via = std::nullopt);

  // The first steps, on the I/O thread, each reporting there once: TLS, then the peer's hello (the
  // dialler sends its own first). The deadline runs from Handshake() until the peer's hello. Then
  // nothing is read until Start().
  void Handshake(Done done);
  void Greet(Purpose purpose, HelloDone done, uint64_t circuit = 0);
  // In the place of Start() after a hello of kCircuit: the accepting side answers it; then the socket is
  // given away, with nothing of what follows read, and this is closed.
  void Surrender(SocketDone done);
  void Stop() override;

  // From here on any thread. Start(): frames go to `events`; the accepting side answers the hello.
  void Start(std::weak_ptr<ConnectionEvents> events);
  void Send(Frame frame);
  // Tells the peer `why` if that goes quickly and closes. No event follows. `why` must not be OK.
  void Close(absl::Status why);
  // The same once everything that was sent before is written; OnClosed() follows.
  void CloseWhenSent(absl::Status why);
  // The executor has dealt with a frame of `bytes` of payload.
  void Consumed(size_t bytes);
  // As the kernel counts; after the end the last values, rtt zero.
  TrafficCounters counters() const;

  // Constant after the handshake; zero before. When that failed, who it is instead of `expected`.
  const NodeId& peer() const { return peer_; }
  bool dialled() const { return dialled_; }
  // From the hello on: without TLS since then.
  bool clear() const { return clear_; }
  const asio::ip::tcp::endpoint& remote() const { return remote_; }
  const std::optional<NodeId>& via() const { return via_; }

 private:
  enum class State { kHandshake, kSecured, kGreeting, kGreeted, kOpen, kClosing, kClosed };

  void DriveHandshake();
  absl::Status CheckPeer();
  void ArmRead();
  void ArmWrite();
  void OnReady();
  void TryRead();
  bool ReadMayGoOn();
  bool ThrottleRead();  // whether the limit lets nothing be read for a while
  // False when the connection has come to its end.
  bool HandleFrame(Frame frame);
  void HandleHello(const Frame& frame);
  void Deliver(Frame frame);
  void Flush();
  void TryWrite();
  bool FillRecord();
  // False when `step` was not done: then this waits, or ends the connection.
  bool WasDone(const ChannelStep& step);
  bool MayBeClear() const;
  void ArmTimer(absl::Duration delay, std::function<void()> fn);
  void KeepAlive();
  bool InFrame() const;  // a frame is sent in part
  // Whether the peer's kernel has taken something since the last call.
  bool MoreWasTaken();
  // Ends it: reports `why` to whoever waits; with `tell`, the peer gets a kClose first, if it has not had an alert.
  void End(absl::Status why, std::optional<absl::Status> tell = std::nullopt);
  void Report(const absl::Status& why);
  // Runs `fn` on the I/O thread; false when the connection is gone.
  bool PostToIo(std::function<void()> fn);
  void StartClosing(const std::optional<absl::Status>& tell);
  void DiscardInput();
  void CloseSocket();
  void GiveSocket();
  std::string Where() const;

  const std::shared_ptr<IoWorld> world_;
  const bool dialled_;
  const std::optional<NodeId> expected_;
  const std::optional<NodeId> via_;
  asio::ip::tcp::endpoint remote_;  // constant after construction
  NodeId peer_;                     // constant after the handshake

  // I/O thread only.
  asio::ip::tcp::socket socket_;
  Channel channel_;
  State state_ = State::kHandshake;
  Purpose purpose_ = Purpose::kMain;
  Done handshake_done_;
  HelloDone hello_done_;
  SocketDone surrender_;
  std::weak_ptr<ConnectionEvents> events_;
  asio::steady_timer timer_;  // handshake deadline, then keepalive, then end of closing
  asio::steady_timer read_throttle_;
  asio::steady_timer write_throttle_;
  bool read_armed_ = false;
  bool write_armed_ = false;
  bool read_throttled_ = false;
  bool write_throttled_ = false;
  std::optional<absl::Status> close_when_sent_;
  bool asked_ = false;  // a ping is unanswered
  bool held_back_ = false;  // since the last look, by us: what came was not read at once
  uint64_t taken_ = 0;  // bytes, by the peer's kernel
  absl::Duration last_received_;
  FrameReader reader_;
  WriteQueue queue_;
  bool hello_in_record_ = false;
  std::vector<uint8_t> record_;  // headers and small payloads, at most one TLS record
  size_t record_at_ = 0;
  Buffer tail_;  // the rest of a large payload
  size_t tail_at_ = 0;

  std::atomic<bool> clear_{false};
  std::atomic<size_t> undelivered_{0};  // bytes posted to the executor and not yet dealt with

  mutable absl::Mutex mutex_;
  std::vector<Frame> outbox_ ABSL_GUARDED_BY(mutex_);
  bool flush_posted_ ABSL_GUARDED_BY(mutex_) = false;
  int counted_socket_ ABSL_GUARDED_BY(mutex_) = -1;
  TrafficCounters final_counters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_CONNECTION_H_
