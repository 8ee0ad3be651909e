// The frames of the transport (docs/formats/transport.md): a 16-byte header and a payload.
// FrameReader bounds every number before it allocates.
#ifndef GDF_CORE_NET_FRAME_H_
#define GDF_CORE_NET_FRAME_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/buffer.h"
#include "core/net/transport.h"

namespace gdf::net {

inline constexpr uint32_t kProtocolVersion = 1;
inline constexpr size_t kFrameHeaderBytes = 16;
inline constexpr size_t kMaxReasonBytes = 1024;  // the text of kReset and kClose

enum class FrameType : uint8_t {
  kHello = 1,        // payload: EncodeHello; the first frame each way
  kOpen = 2,         // stream; arg: Priority; payload: method
  kData = 3,         // stream; payload: one message
  kWindow = 4,       // stream; arg: bytes of credit
  kFinish = 5,       // stream; no more messages from the sender
  kReset = 6,        // stream; arg: status code; payload: reason
  kPing = 7,         // payload: 8 bytes
  kPong = 8,         // payload: those of the ping
  kDrain = 9,        // the sender opens no more streams on this connection
  kWantStripe = 10,  // please dial one more bulk connection
  kClose = 11,       // arg: status code; payload: reason; the last frame
};

struct Frame {
  FrameType type{};
  uint32_t stream = 0;  // 0: the connection itself
  uint32_t arg = 0;
  Buffer payload;
};

// kCircuit: with a relay, which takes it out of TLS after the hello and passes on what comes (circuit.h).
enum class Purpose : uint8_t { kMain = 0, kStripe = 1, kCircuit = 2 };

struct Hello {
  uint64_t incarnation = 0;  // random per process: a peer that restarted is noticed
  Purpose purpose = Purpose::kMain;
  bool clear = false;  // after the hello, without TLS; asked by the dialler, answered by the other side
  uint64_t circuit = 0;  // of kCircuit, which is always clear: the relay's number for it
};

// A message of `bytes` takes this much of a stream's window, so that empty messages are bounded
// too.
inline constexpr size_t kMessageOverhead = 64;
constexpr size_t WindowCost(size_t bytes) { return bytes + kMessageOverhead; }

std::array<uint8_t, kFrameHeaderBytes> EncodeHeader(const Frame& frame);

Frame HelloFrame(const Hello& hello, uint32_t version = kProtocolVersion);
// kFailedPrecondition for another protocol version, naming both; kInvalidArgument for anything
// else.
absl::StatusOr<Hello> DecodeHello(const Frame& frame);

// kReset or kClose; the message is cut at kMaxReasonBytes. `why` must not be OK.
Frame StatusFrame(FrameType type, uint32_t stream, const absl::Status& why);
absl::Status DecodeStatus(const Frame& frame);

// Turns bytes into frames without copying payloads: fill Target(), then say how much came.
class FrameReader {
 public:
  // Where the next bytes go; never empty.
  absl::Span<uint8_t> Target();
  // `n` bytes of Target() were filled. A frame when one is complete. kInvalidArgument when the
  // header breaks the format (unknown type, length over the type's limit, ...): nothing was
  // allocated for it.
  absl::StatusOr<std::optional<Frame>> Advance(size_t n);

 private:
  absl::Status ParseHeader();
  Frame TakeFrame();

  std::array<uint8_t, kFrameHeaderBytes> header_{};
  size_t filled_ = 0;  // of the header, then of the payload
  bool in_payload_ = false;
  Frame frame_;
  size_t length_ = 0;
  std::shared_ptr<uint8_t[]> payload_;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_FRAME_H_
