#include "core/net/channel.h"

#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace gdf::net {
namespace {

ChannelStep Done(size_t bytes) { return {.bytes = bytes, .ended = {}}; }
ChannelStep Wait(ChannelStep::Kind kind) { return {.kind = kind, .ended = {}}; }
ChannelStep Ended(std::string why) {
  return {.kind = ChannelStep::Kind::kEnded, .ended = std::move(why)};
}

ChannelStep SocketEnded(int error, const char* doing) {
  return Ended(absl::StrCat(doing, ": ", error == 0 ? "the peer hung up" : std::generic_category().message(error)));
}

}  // namespace

Channel::Channel(const TlsContext& tls, int socket, bool client)
    : socket_(socket), ssl_(tls.NewSession(socket, client)) {}

ChannelStep Channel::AfterTls(int ret, const char* doing) {
  const int saved_errno = errno;
  switch (SSL_get_error(ssl_.get(), ret)) {
    case SSL_ERROR_WANT_READ:
      return Wait(ChannelStep::Kind::kWaitRead);
    case SSL_ERROR_WANT_WRITE:
      return Wait(ChannelStep::Kind::kWaitWrite);
    case SSL_ERROR_ZERO_RETURN:
      return Ended("closed by the peer");
    case SSL_ERROR_SYSCALL:
      return SocketEnded(saved_errno, doing);
    default:
      return Ended(absl::StrCat(doing, ": ", TlsErrorText("the peer hung up")));
  }
}

ChannelStep Channel::AfterSocket(ssize_t ret, ChannelStep::Kind wait, const char* doing) {
  if (ret > 0) return Done(static_cast<size_t>(ret));
  if (ret == 0) return Ended("closed by the peer");
  return WouldBlock() ? Wait(wait) : SocketEnded(errno, doing);
}

ChannelStep Channel::Handshake() {
  ERR_clear_error();
  const int ret = SSL_do_handshake(ssl_.get());
  return ret == 1 ? Done(0) : AfterTls(ret, "TLS handshake");
}

ChannelStep Channel::Read(absl::Span<uint8_t> to) {
  constexpr char kDoing[] = "receive";
  if (read_clear_) {
    return AfterSocket(recv(socket_, to.data(), to.size(), 0), ChannelStep::Kind::kWaitRead, kDoing);
  }
  size_t bytes = 0;
  ERR_clear_error();
  const int ret = SSL_read_ex(ssl_.get(), to.data(), to.size(), &bytes);
  return ret == 1 ? Done(bytes) : AfterTls(ret, kDoing);
}

ChannelStep Channel::Write(absl::Span<const uint8_t> from, size_t more) {
  constexpr char kDoing[] = "send";
  if (write_clear_) {
    const int flags = MSG_NOSIGNAL | (more > 0 ? MSG_MORE : 0);
    return AfterSocket(send(socket_, from.data(), from.size(), flags), ChannelStep::Kind::kWaitWrite, kDoing);
  }
  SetMoreFollows(ssl_.get(), more > 0 || from.size() > kRecordBytes);
  size_t bytes = 0;
  ERR_clear_error();
  const int ret = SSL_write_ex(ssl_.get(), from.data(), from.size(), &bytes);
  return ret == 1 ? Done(bytes) : AfterTls(ret, kDoing);
}

void Channel::Finish() {
  if (!write_clear_) SSL_shutdown(ssl_.get());
  shutdown(socket_, SHUT_WR);
}

void Channel::ReadRest(bool clear) {
  read_clear_ = clear;
  if (!clear) ReadAhead(ssl_.get());
}

}  // namespace gdf::net
