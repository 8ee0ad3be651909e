#include "core/net/channel_step.h"

#include <sys/socket.h>
#include <sys/types.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gdf::net {
namespace {

// Of a call that gave `ret`, and errno; `wait` where it would block.
ChannelStep AfterSocket(ssize_t ret, ChannelStep::Kind wait, const char* doing) {
  if (ret > 0) return Done(static_cast<size_t>(ret));
  if (ret == 0) return Ended("closed by the peer");
  return WouldBlock() ? Wait(wait) : SocketEnded(errno, doing);
}

}  // namespace

ChannelStep Done(size_t bytes) { return {.bytes = bytes, .ended = {}}; }
ChannelStep Wait(ChannelStep::Kind kind) { return {.kind = kind, .ended = {}}; }
ChannelStep Ended(std::string why) { return {.kind = ChannelStep::Kind::kEnded, .ended = std::move(why)}; }

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

ChannelStep ReceiveSome(int socket, absl::Span<uint8_t> to) {
  return AfterSocket(recv(socket, to.data(), to.size(), 0), ChannelStep::Kind::kWaitRead, "receive");
}

ChannelStep SendSome(int socket, absl::Span<const uint8_t> from, bool more) {
  const int flags = MSG_NOSIGNAL | (more ? MSG_MORE : 0);
  return AfterSocket(send(socket, from.data(), from.size(), flags), ChannelStep::Kind::kWaitWrite, "send");
}

ChannelStep SocketEnded(int error, const char* doing) {
  return Ended(absl::StrCat(doing, ": ", error == 0 ? "the peer hung up" : std::generic_category().message(error)));
}

}  // namespace gdf::net
