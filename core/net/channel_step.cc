#include "core/net/channel_step.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gdf::net {

ChannelStep Done(size_t bytes) { return {.bytes = bytes, .ended = {}}; }
ChannelStep Wait(ChannelStep::Kind kind) { return {.kind = kind, .ended = {}}; }
ChannelStep Ended(std::string why) { return {.kind = ChannelStep::Kind::kEnded, .ended = std::move(why)}; }

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

ChannelStep AfterSocket(ssize_t ret, ChannelStep::Kind wait, const char* doing) {
  if (ret > 0) return Done(static_cast<size_t>(ret));
  if (ret == 0) return Ended("closed by the peer");
  return WouldBlock() ? Wait(wait) : SocketEnded(errno, doing);
}

ChannelStep SocketEnded(int error, const char* doing) {
  return Ended(absl::StrCat(doing, ": ", error == 0 ? "the peer hung up" : std::generic_category().message(error)));
}

}  // namespace gdf::net
