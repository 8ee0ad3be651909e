#include "core/net/channel.h"

#include <openssl/err.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace gdf::net {

Channel::Channel(const TlsContext& tls, int socket, bool client)
    : socket_(socket),
      client_(client),
      ssl_(tls.NewSession(socket, client, &secrets_)),
      peer_(absl::FailedPreconditionError("the TLS handshake is not done")) {}

ChannelStep Channel::Handshake() {
  constexpr char kDoing[] = "TLS handshake";
  ERR_clear_error();
  const int ret = SSL_do_handshake(ssl_.get());
  if (ret == 1) {
    peer_ = PeerOf(ssl_.get());
    const SSL_CIPHER* suite = SSL_get_current_cipher(ssl_.get());
    RecordCipher writes(suite, std::move(client_ ? secrets_.client : secrets_.server), /*seals=*/true);
    RecordCipher reads(suite, std::move(client_ ? secrets_.server : secrets_.client), /*seals=*/false);
    records_.emplace(socket_, std::move(writes), std::move(reads));
    ssl_.reset();
    return Done(0);
  }
  const int saved_errno = errno;
  switch (SSL_get_error(ssl_.get(), ret)) {
    case SSL_ERROR_WANT_READ:
      return Wait(ChannelStep::Kind::kWaitRead);
    case SSL_ERROR_WANT_WRITE:
      return Wait(ChannelStep::Kind::kWaitWrite);
    case SSL_ERROR_ZERO_RETURN:
      return Ended("closed by the peer");
    case SSL_ERROR_SYSCALL:
      return SocketEnded(saved_errno, kDoing);
    default:
      return Ended(absl::StrCat(kDoing, ": ", TlsErrorText("the peer hung up")));
  }
}

ChannelStep Channel::Read(absl::Span<uint8_t> to) {
  if (!read_clear_) return records_->Read(to);
  return ReceiveSome(socket_, to);
}

ChannelStep Channel::Write(absl::Span<const uint8_t> from, bool more) {
  if (!write_clear_) return records_->Write(from, more);
  return SendSome(socket_, from, more);
}

void Channel::Finish() {
  if (std::exchange(finished_, true)) return;
  if (!write_clear_) records_->Finish();
  shutdown(socket_, SHUT_WR);
}

void Channel::ReadRest(bool clear) {
  read_clear_ = clear;
  if (!clear) records_->ReadAhead();
}

}  // namespace gdf::net
