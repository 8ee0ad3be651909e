// How nodes talk: calls and ordered message streams between NodeIds, whoever dialled. The real
// transport is TlsTransport (tls_transport.h); the simulator has its own. Everything here is used
// on the Executor only.
//
//   Registration echo = transport.HandleCall("echo", &Echo, {});       // unregistered with the
//   handle absl::StatusOr<Buffer> reply = co_await transport.Call(peer, "echo", Buffer("hi"),
//   absl::Seconds(5));
#ifndef GDF_CORE_NET_TRANSPORT_H_
#define GDF_CORE_NET_TRANSPORT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/buffer.h"
#include "core/base/ids.h"
#include "core/base/task.h"

namespace gdf::net {

// The largest message of a stream or call: 1 MiB of payload and room for what describes it.
inline constexpr size_t kMaxMessageBytes = (size_t{1} << 20) + (size_t{64} << 10);
inline constexpr size_t kMaxMethodBytes = 128;  // the longest method name

// Bulk travels on connections of its own, under the owner's rate limits; control never waits behind
// it. Keep control messages small: one delays the next by its own transmission time.
enum class Priority : uint8_t { kControl = 0, kBulk = 1 };

// What a peer may do here. kStranger: only methods that are open to strangers.
enum class Admission { kRefused, kStranger, kMember };

// Undoes something when destroyed. Move-only.
class [[nodiscard]] Registration {
 public:
  Registration() = default;
  explicit Registration(absl::AnyInvocable<void()> undo) : undo_(std::move(undo)) {}
  Registration(Registration&& other) noexcept : undo_(std::exchange(other.undo_, nullptr)) {}
  Registration& operator=(Registration&& other) noexcept {
    if (this != &other) {
      Reset();
      undo_ = std::exchange(other.undo_, nullptr);
    }
    return *this;
  }
  ~Registration() { Reset(); }
  void Reset() {
    if (absl::AnyInvocable<void()> undo = std::exchange(undo_, nullptr)) undo();
  }

 private:
  absl::AnyInvocable<void()> undo_;
};

// Ordered messages both ways with flow control: at most a few MiB are under way in each direction.
// One Send and one Receive may be waiting at a time. Destroying a stream cancels what is not
// finished.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual NodeId peer() const = 0;

  // Returns once the message is on its way (not: arrived), after waiting for the receiver's window.
  // kInvalidArgument above kMaxMessageBytes; kFailedPrecondition after Finish(); kUnavailable when
  // the connection is gone; the status of whoever cancelled the stream.
  virtual Task<absl::Status> Send(Buffer message) = 0;

  // The next message; nullopt once the peer has finished. kDeadlineExceeded after `timeout` (the
  // stream stays usable); kUnavailable when the connection is gone; the status of whoever cancelled
  // the stream.
  virtual Task<absl::StatusOr<std::optional<Buffer>>> Receive(
      absl::Duration timeout = absl::InfiniteDuration()) = 0;

  // No more messages from here. What was sent before still arrives, even if the stream is destroyed
  // at once.
  virtual void Finish() = 0;
  // Ends both directions now; the peer's Send and Receive return `why` (not OK; message cut at 1
  // KiB).
  virtual void Cancel(absl::Status why) = 0;
};

struct MethodOptions {
  bool open_to_strangers = false;
  size_t max_message_bytes = kMaxMessageBytes;  // a larger incoming message cancels its stream
  int max_concurrent_per_peer = 64;  // one stream more is refused with kResourceExhausted
};

// Bytes as the kernel counted them (TCP payload acknowledged and received, TLS included),
// connections that have closed included. `rtt` is zero while not connected.
struct TrafficCounters {
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  absl::Duration rtt;
  absl::Duration min_rtt = absl::ZeroDuration();  // the least of the last minutes: without queues; 0: not known, or by a relay
  // At which the kernel last saw bulk data arrive at the peer, by the fastest of the connections that are open or, when
  // none is, by the one that closed last; 0: too little went there to tell.
  uint64_t rate_bytes_per_sec = 0;
};

// How a connected peer is reached.
struct PeerPath {
  std::string remote;     // "192.0.2.1:7420": the other end of the connection that control messages take
  bool dialled = false;   // by this node; else by the peer
  int connections = 0;    // with those for bulk data
  bool clear = false;     // bulk data goes without TLS, as both owners allow
  std::optional<NodeId> via = std::nullopt;  // the relay between the two, when there is no direct path; `remote` is its
};

// The status of a call to `peer`, or of a stream with it, with the peer named in the message: what
// the transport says names it already, the peer's own words do not.
absl::Status NamingPeer(const absl::Status& status, const NodeId& peer);

class Transport {
 public:
  // Runs as a detached task; the stream ends with it.
  using StreamHandler = std::function<Task<void>(NodeId peer, std::unique_ptr<Stream> stream)>;
  // The status of a failed call travels to the caller.
  using CallHandler = std::function<Task<absl::StatusOr<Buffer>>(NodeId peer, Buffer request)>;
  // `why` is OK when up.
  using PeerWatcher = std::function<void(NodeId peer, bool up, const absl::Status& why)>;

  virtual ~Transport() = default;
  virtual NodeId self() const = 0;
  virtual Executor& executor() = 0;

  // Serves `method` until the Registration is destroyed, which also destroys the handlers still
  // running (so what they refer to may go right after it); never destroy it from inside such a
  // handler. The method must not be registered already. Unknown methods answer kUnimplemented.
  virtual Registration HandleStream(std::string method, StreamHandler handler,
                                    MethodOptions options) = 0;
  Registration HandleCall(std::string method, CallHandler handler, MethodOptions options = {});

  // Opens a stream over any live connection to `peer`, dialling when there is none. Returns before
  // the peer has answered: its refusal (kUnimplemented, kPermissionDenied, kResourceExhausted)
  // comes out of Receive or Send. kUnavailable: not reachable, with what was tried;
  // kDeadlineExceeded; kPermissionDenied: refused by either side.
  virtual Task<absl::StatusOr<std::unique_ptr<Stream>>> Open(NodeId peer, std::string method,
                                                             Priority priority,
                                                             absl::Duration timeout) = 0;
  // Returns once `peer` is connected, as Open() without a stream.
  virtual Task<absl::Status> Reach(NodeId peer, absl::Duration timeout) = 0;
  // One message there, one back. The handler's status, or as Open() and Receive().
  Task<absl::StatusOr<Buffer>> Call(NodeId peer, std::string method, Buffer request,
                                    absl::Duration timeout, Priority priority = Priority::kControl);

  // Where to dial `peer`: "192.0.2.1:7450", "[2001:db8::1]:7450" or "host.example:7450". Replaces
  // what was known; an empty list means that it is reached only over connections that it opens.
  virtual void SetAddresses(NodeId peer, std::vector<std::string> host_ports) = 0;

  // The members that pass on what others cannot send each other directly. A peer that cannot be dialled is reached by way
  // of one that is connected; it is dialled again from time to time, and the direct path taken when it works. Replaces
  // what was known.
  virtual void SetRelays(std::vector<NodeId> relays) = 0;

  // Who answered at `peer`'s addresses when it was dialled last, with keys of their own: strangers,
  // or `peer` under a new key.
  virtual std::vector<NodeId> AnsweredInstead(NodeId peer) const = 0;
  // Whether all of `peer`'s addresses refused when it was dialled last, and no connection came up
  // since: no program listens there.
  virtual bool NobodyListens(NodeId peer) const = 0;

  // Decides about each peer when it connects; without a policy everybody is a stranger. `policy` is
  // called on the executor and must outlive the transport.
  virtual void SetAdmission(std::function<Admission(NodeId)> policy) = 0;
  // Asks the policy again about every connected peer and cuts those that are now worth less, at
  // once.
  virtual void RecheckAdmission() = 0;
  // Closes every connection to `peer`; both sides' streams end with `why` (as kUnavailable when it
  // is OK).
  virtual void Disconnect(NodeId peer, absl::Status why) = 0;

  virtual bool Connected(NodeId peer) const = 0;
  // Connected peers, in order of their ids.
  virtual std::vector<NodeId> Peers() const = 0;
  // Calls `watcher` when a peer's first connection comes up and when its last one is gone.
  virtual Registration WatchPeers(PeerWatcher watcher) = 0;

  virtual TrafficCounters counters(NodeId peer) const = 0;
  virtual TrafficCounters total_counters() const = 0;  // rtt and rate: zero
  virtual std::optional<PeerPath> path(NodeId peer) const = 0;  // nullopt while not connected
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_TRANSPORT_H_
