// What came of one step on a socket that does not block.
#ifndef GDF_CORE_NET_CHANNEL_STEP_H_
#define GDF_CORE_NET_CHANNEL_STEP_H_

#include <sys/types.h>

#include <cstddef>
#include <string>

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

// Of a call on a socket that gave `ret`, and errno; `wait` where it would block. `doing` begins what ended it.
ChannelStep AfterSocket(ssize_t ret, ChannelStep::Kind wait, const char* doing);
// Of one that failed with `error`; 0: the peer is gone without a word.
ChannelStep SocketEnded(int error, const char* doing);

}  // namespace gdf::net

#endif  // GDF_CORE_NET_CHANNEL_STEP_H_
