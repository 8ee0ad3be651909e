// What came of one step on a socket that does not block.
#ifndef GDF_CORE_NET_CHANNEL_STEP_H_
#define GDF_CORE_NET_CHANNEL_STEP_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace gdf::net {

struct ChannelStep {
  enum class Kind { kDone, kWaitRead, kWaitWrite, kEnded };
  Kind kind = Kind::kDone;
  size_t bytes = 0;   // of kDone
  std::string ended;  // of kEnded: why

  bool done() const { return kind == Kind::kDone; }
};

ChannelStep Done(size_t bytes);
ChannelStep Wait(ChannelStep::Kind kind);
ChannelStep Ended(std::string why);

// Whether a socket's call that has just failed is to be tried again when the socket is ready.
bool WouldBlock();

// What there is, up to to.size().
ChannelStep ReceiveSome(int socket, absl::Span<uint8_t> to);
// Some of `from`. `more` is written right after it: the kernel then waits to fill its segments, of up to 64 KiB, instead
// of sending each part by itself. Ends with a write without.
ChannelStep SendSome(int socket, absl::Span<const uint8_t> from, bool more);
// Of a call that failed with `error`; 0: the peer is gone without a word. `doing` begins what ended it.
ChannelStep SocketEnded(int error, const char* doing);

}  // namespace gdf::net

#endif  // GDF_CORE_NET_CHANNEL_STEP_H_
