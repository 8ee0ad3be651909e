// The executor's half of a connection: its streams and their windows.
#ifndef GDF_CORE_NET_LINK_H_
#define GDF_CORE_NET_LINK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/base/task.h"
#include "core/net/connection.h"
#include "core/net/transport.h"

namespace gdf::net {

class Link;

// One stream's state, shared by its Link and the Stream in the user's hands.
struct StreamState {
  Executor* executor = nullptr;
  std::weak_ptr<Link> link;
  NodeId peer;
  uint32_t id = 0;
  size_t max_message_bytes = kMaxMessageBytes;

  std::deque<Buffer> inbox;
  bool peer_finished = false;
  bool finished = false;     // by us
  absl::Status receive_end;  // not OK: nothing more comes
  absl::Status send_end;     // not OK: nothing more can be sent

  size_t send_window = WindowCost(kMaxMessageBytes);
  size_t receive_window = WindowCost(kMaxMessageBytes);  // what the peer may still send
  size_t receive_target = WindowCost(kMaxMessageBytes);  // what it is kept at
  size_t full_target =
      WindowCost(kMaxMessageBytes);  // and will be once the reader has taken something
  std::optional<OneShot<bool>> receive_wake;
  std::optional<OneShot<bool>> send_wake;

  bool over() const { return (finished || !send_end.ok()) && (peer_finished || !receive_end.ok()); }
  // Both directions end with `why`; messages of a peer that had finished stay readable.
  void End(const absl::Status& why);
  void Wake();
};

class Link : public std::enable_shared_from_this<Link> {
 public:
  // `on_stream_over`: a stream has left streams().
  Link(Executor& executor, std::shared_ptr<Connection> connection, Hello hello, Purpose purpose,
       size_t bulk_window, std::function<void(Link&)> on_stream_over);

  const NodeId& peer() const { return connection_->peer(); }
  Connection& connection() { return *connection_; }
  const Connection& connection() const { return *connection_; }
  bool stripe() const { return purpose_ == Purpose::kStripe; }
  uint64_t incarnation() const { return incarnation_; }
  size_t stream_count() const { return streams_.size(); }
  absl::Duration idle_since() const { return idle_since_; }  // monotonic; while without streams
  // New streams may be opened here.
  bool usable() const;

  std::unique_ptr<Stream> Open(const std::string& method, Priority priority);
  // kOpen of the peer; kInvalidArgument when it breaks the protocol.
  absl::Status CheckOpen(const Frame& open) const;
  std::unique_ptr<Stream> Accept(const Frame& open, const MethodOptions& options);
  // A frame of a stream that is or was. Not OK: the peer broke the protocol.
  absl::Status OnStreamFrame(Frame frame);
  // Answers a kOpen with a status instead of a stream.
  void Refuse(uint32_t stream, const absl::Status& why);

  // No more new streams; tells the peer once. drained(): neither side opens any more.
  void Drain();
  void PeerDrains() { peer_drains_ = true; }
  bool drained() const { return draining_ && peer_drains_ && streams_.empty(); }

  // Ends all streams.
  void EndStreams(const absl::Status& why);
  // Forgets a stream that is over.
  void Forget(uint32_t stream);

 private:
  std::shared_ptr<StreamState> Add(uint32_t id, bool bulk);
  absl::Status OnData(StreamState& stream, Buffer message);

  Executor& executor_;
  const std::shared_ptr<Connection> connection_;
  const uint64_t incarnation_;
  const Purpose purpose_;
  const size_t bulk_window_;
  const std::function<void(Link&)> on_stream_over_;
  uint32_t next_stream_;
  uint32_t last_peer_stream_ = 0;
  bool draining_ = false;
  bool peer_drains_ = false;
  absl::Duration idle_since_;
  std::unordered_map<uint32_t, std::shared_ptr<StreamState>> streams_;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_LINK_H_
