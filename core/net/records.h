// The application data of a TLS 1.3 connection (RFC 8446, section 5), from where its handshake has ended. Many records
// go through each call of the socket, and each is sealed from the caller's bytes and opened into the caller's buffer.
#ifndef GDF_CORE_NET_RECORDS_H_
#define GDF_CORE_NET_RECORDS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/types/span.h"
#include "core/net/channel_step.h"
#include "core/net/record_cipher.h"

namespace gdf::net {

// One thread at a time.
class Records {
 public:
  // Before so many records under one key the writer takes the next: AES-GCM's limit is 2^24.5 (section 5.5).
  static constexpr uint64_t kRecordsPerKey = uint64_t{1} << 24;

  // Over `socket`, not owned. `writes` and `reads`: of this side and of the other.
  Records(int socket, RecordCipher writes, RecordCipher reads, uint64_t records_per_key = kRecordsPerKey);

  // Until then no more is taken from the socket than the record that is read; from then on also what follows, about as
  // much as is asked for.
  void ReadAhead() { ahead_ = true; }

  // Up to one record's data. kEnded: the peer said that it ends, or what came is not the peer's; then it is told that by an
  // alert (section 6.2), unless the rest of a record is due first, and nothing more may be written.
  ChannelStep Read(absl::Span<uint8_t> to);

  // Some of `from`, which is not empty. After kWaitWrite, which has taken some of it already, the next call must begin
  // with the same bytes. `more`: as SendSome's.
  ChannelStep Write(absl::Span<const uint8_t> from, bool more);

  // Tells the peer that no more is written. Nothing may be on its way.
  void Finish();
  bool Refused() const { return refused_; }

 private:
  std::optional<ChannelStep> Fill(size_t ahead);
  size_t Wanted() const;
  ChannelStep TakeRecord(absl::Span<uint8_t> to);
  ChannelStep TakeWithoutData(RecordType type, absl::Span<const uint8_t> content);
  ChannelStep TakeHandshake(absl::Span<const uint8_t> message);
  ChannelStep HandOut(absl::Span<uint8_t> to);
  void SealNext(absl::Span<const uint8_t> from);
  void AppendSealed(RecordType type, absl::Span<const uint8_t> content);
  ChannelStep Refuse(uint8_t alert, std::string_view why);
  void SendAlert(uint8_t level, uint8_t description);

  const int socket_;
  const uint64_t records_per_key_;
  RecordCipher writes_, reads_;
  bool ahead_ = false;

  std::unique_ptr<uint8_t[]> in_;  // what came: records from in_at_ to in_end_
  size_t in_at_ = 0, in_end_ = 0;
  absl::Span<const uint8_t> opened_;  // in in_: data that did not fit where it was asked for
  int without_data_ = 0;              // records, in a row

  std::unique_ptr<uint8_t[]> out_;  // sealed records, sent up to out_at_
  size_t out_room_ = 0, out_at_ = 0, out_end_ = 0;
  size_t taken_ = 0;         // bytes of the caller's that they hold
  bool update_due_ = false;  // the peer has asked for a new key
  bool refused_ = false;     // what it sent
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_RECORDS_H_
