#include "core/net/records.h"

#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/text.h"

namespace gdf::net {
namespace {

constexpr size_t kInBytes = size_t{512} << 10;
constexpr size_t kLeastAhead = size_t{4} << 10;  // so that small frames need one call of the socket
constexpr size_t kMostTaken = size_t{128} << 10;  // of the caller's bytes, sealed at a time
// As OpenSSL: a peer that sends nothing but such keeps this side busy for nothing.
constexpr int kMostWithoutData = 32;

// Handshake messages (RFC 8446, section 4) that may come after it.
constexpr uint8_t kNewSessionTicket = 4, kKeyUpdate = 24;
constexpr size_t kMessageHeaderBytes = 4, kKeyUpdateBytes = 5;
constexpr uint8_t kUpdateNotRequested = 0, kUpdateRequested = 1;


size_t LengthOf(const uint8_t* header) { return size_t{header[3]} << 8 | header[4]; }

// Whether a record may begin so.
bool IsHeader(const uint8_t* header) {
  const size_t length = LengthOf(header);
  return header[0] == static_cast<uint8_t>(RecordType::kData) && header[1] == 3 && header[2] == 3 &&
         length > kRecordTagBytes && length <= kMaxSealedBytes;
}

}  // namespace

Records::Records(int socket, RecordCipher writes, RecordCipher reads, uint64_t records_per_key)
    : socket_(socket), records_per_key_(records_per_key), writes_(std::move(writes)), reads_(std::move(reads)) {}

// --- Reading ---

ChannelStep Records::Read(absl::Span<uint8_t> to) {
  if (!opened_.empty()) return HandOut(to);
  while (true) {
    if (std::optional<ChannelStep> stopped = Fill(std::max(to.size(), kLeastAhead))) return *std::move(stopped);
    ChannelStep step = TakeRecord(to);
    if (!step.done() || step.bytes > 0) return step;
  }
}

// Bytes from in_at_ on without which there is no whole record.
size_t Records::Wanted() const {
  const bool headed = in_end_ - in_at_ >= kRecordHeaderBytes;
  return kRecordHeaderBytes + (headed ? LengthOf(in_.get() + in_at_) : 0);
}

// Until there is a whole record, with `ahead` bytes at a time where more may be taken; otherwise why there is none.
std::optional<ChannelStep> Records::Fill(size_t ahead) {
  if (!in_) in_ = std::make_unique_for_overwrite<uint8_t[]>(kInBytes);
  while (true) {
    const size_t here = in_end_ - in_at_;
    if (here >= kRecordHeaderBytes && !IsHeader(in_.get() + in_at_)) {
      const bool long_one = LengthOf(in_.get() + in_at_) > kMaxSealedBytes;
      return Refuse(long_one ? SSL_AD_RECORD_OVERFLOW : SSL_AD_UNEXPECTED_MESSAGE, "that is no TLS record");
    }
    const size_t wanted = Wanted();
    if (here >= wanted && here > kRecordHeaderBytes) return std::nullopt;
    if (kInBytes - in_at_ < kRecordHeaderBytes + kMaxSealedBytes || here == 0) {
      std::memmove(in_.get(), in_.get() + in_at_, here);
      in_at_ = 0;
      in_end_ = here;
    }
    const size_t room = ahead_ ? std::max(wanted - here, std::min(kInBytes - in_end_, ahead)) : wanted - here;
    ChannelStep step = ReceiveSome(socket_, absl::MakeSpan(in_.get() + in_end_, room));
    if (!step.done()) return step;
    in_end_ += step.bytes;
  }
}

// Opens a whole record where its data is wanted, or in its own place. No bytes: it held no data.
ChannelStep Records::TakeRecord(absl::Span<uint8_t> to) {
  uint8_t* const header = in_.get() + in_at_;
  uint8_t* const sealed = header + kRecordHeaderBytes;
  const size_t length = LengthOf(header);
  const size_t most = length - kRecordTagBytes - 1;
  uint8_t* const content = to.size() >= most ? to.data() : sealed;
  uint8_t type = 0;
  if (!reads_.Open(header, {sealed, length}, content, &type)) {
    return Refuse(SSL_AD_BAD_RECORD_MAC, "a TLS record is not what the peer has sealed");
  }
  in_at_ += kRecordHeaderBytes + length;
  size_t bytes = most;
  while (type == static_cast<uint8_t>(RecordType::kPadding) && bytes > 0) type = content[--bytes];
  if (type != static_cast<uint8_t>(RecordType::kData) || bytes == 0) {
    return TakeWithoutData(static_cast<RecordType>(type), {content, bytes});
  }
  without_data_ = 0;
  if (content == to.data()) return Done(bytes);
  opened_ = {content, bytes};
  return HandOut(to);
}

ChannelStep Records::HandOut(absl::Span<uint8_t> to) {
  const size_t bytes = std::min(to.size(), opened_.size());
  std::memcpy(to.data(), opened_.data(), bytes);
  opened_.remove_prefix(bytes);
  return Done(bytes);
}

ChannelStep Records::TakeWithoutData(RecordType type, absl::Span<const uint8_t> content) {
  if (++without_data_ > kMostWithoutData) return Refuse(SSL_AD_UNEXPECTED_MESSAGE, "too many TLS records without data");
  if (type == RecordType::kData) return Done(0);
  if (type == RecordType::kHandshake) return TakeHandshake(content);
  if (type != RecordType::kAlert) return Refuse(SSL_AD_UNEXPECTED_MESSAGE, "a TLS record of a wrong type");
  if (content.size() != 2) return Refuse(SSL_AD_DECODE_ERROR, "a TLS alert that is none");
  const uint8_t description = content[1];
  if (description == SSL_AD_CLOSE_NOTIFY) return Ended("closed by the peer");
  return Ended(absl::StrCat("receive: TLS alert ", SSL_alert_desc_string_long(description)));
}

ChannelStep Records::TakeHandshake(absl::Span<const uint8_t> message) {
  while (message.size() >= kMessageHeaderBytes && message[0] == kNewSessionTicket) {  // nothing is resumed
    const size_t length = size_t{message[1]} << 16 | size_t{message[2]} << 8 | message[3];
    message.remove_prefix(std::min(message.size(), kMessageHeaderBytes + length));
    if (message.empty()) return Done(0);
  }
  constexpr uint8_t kBegin[] = {kKeyUpdate, 0, 0, 1};
  if (message.size() != kKeyUpdateBytes || !std::equal(std::begin(kBegin), std::end(kBegin), message.begin()) ||
      message[4] > kUpdateRequested) {
    return Refuse(SSL_AD_UNEXPECTED_MESSAGE, "a TLS handshake message that has no place here");
  }
  reads_.Advance();
  update_due_ = update_due_ || message[4] == kUpdateRequested;
  return Done(0);
}

ChannelStep Records::Refuse(uint8_t alert, std::string_view why) {
  if (out_at_ == out_end_) SendAlert(SSL3_AL_FATAL, alert);
  refused_ = true;
  return Ended(absl::StrCat("receive: ", ToAbsl(why)));
}

// --- Writing ---

ChannelStep Records::Write(absl::Span<const uint8_t> from, bool more) {
  GDF_CHECK(!from.empty());
  if (out_at_ == out_end_) SealNext(from);
  while (out_at_ < out_end_) {
    ChannelStep step = SendSome(socket_, absl::MakeConstSpan(out_.get() + out_at_, out_end_ - out_at_),
                                more || taken_ < from.size());
    if (!step.done()) return step;
    out_at_ += step.bytes;
  }
  return Done(std::exchange(taken_, 0));
}

void Records::SealNext(absl::Span<const uint8_t> from) {
  taken_ = std::min(from.size(), kMostTaken);
  const size_t records = 1 + (taken_ + kRecordBytes - 1) / kRecordBytes;  // with one of a new key
  const size_t room = taken_ + records * kRecordOverhead + kKeyUpdateBytes;
  if (out_room_ < room) {
    out_ = std::make_unique_for_overwrite<uint8_t[]>(room);
    out_room_ = room;
  }
  out_at_ = out_end_ = 0;
  if (update_due_ || writes_.records() + records > records_per_key_) {
    const uint8_t update[kKeyUpdateBytes] = {kKeyUpdate, 0, 0, 1, kUpdateNotRequested};
    AppendSealed(RecordType::kHandshake, update);
    writes_.Advance();
    update_due_ = false;
  }
  for (size_t at = 0; at < taken_; at += kRecordBytes) {
    AppendSealed(RecordType::kData, from.subspan(at, std::min(kRecordBytes, taken_ - at)));
  }
}

void Records::AppendSealed(RecordType type, absl::Span<const uint8_t> content) {
  writes_.Seal(type, content, out_.get() + out_end_);
  out_end_ += content.size() + kRecordOverhead;
}

void Records::Finish() {
  if (!refused_) SendAlert(SSL3_AL_WARNING, SSL_AD_CLOSE_NOTIFY);
}

void Records::SendAlert(uint8_t level, uint8_t description) {
  const uint8_t alert[2] = {level, description};
  uint8_t record[sizeof(alert) + kRecordOverhead];
  writes_.Seal(RecordType::kAlert, alert, record);
  SendSome(socket_, record, /*more=*/false);  // a peer that is gone need not hear it
}

}  // namespace gdf::net
