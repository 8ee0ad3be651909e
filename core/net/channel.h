// What a connection reads and writes through: TLS over its socket and, after the hello, where both
// owners have said that they trust the network between them, the socket itself.
#ifndef GDF_CORE_NET_CHANNEL_H_
#define GDF_CORE_NET_CHANNEL_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/net/tls_context.h"

namespace gdf::net {

inline constexpr size_t kRecordBytes = 16 << 10;  // the largest plaintext of a TLS record (RFC 8446 5.1)

// Of one step that does not block.
struct ChannelStep {
  enum class Kind { kDone, kWaitRead, kWaitWrite, kEnded };
  Kind kind = Kind::kDone;
  size_t bytes = 0;   // of kDone
  std::string ended;  // of kEnded: why
};

// I/O thread only.
class Channel {
 public:
  // Over `socket`, which must stay open for as long; not owned. `client`: the side that dialled.
  Channel(const TlsContext& tls, int socket, bool client);

  ChannelStep Handshake();
  // Who is at the other end, after the handshake.
  absl::StatusOr<NodeId> Peer() const { return PeerOf(ssl_.get()); }

  ChannelStep Read(absl::Span<uint8_t> to);
  // `more` bytes are written right after these: the kernel then waits to fill its segments, of up to
  // 64 KiB, instead of sending each part by itself. Ends with a write without.
  ChannelStep Write(absl::Span<const uint8_t> from, size_t more);
  // Says that no more is written.
  void Finish();

  // The hello was read. What follows is read from the socket itself with `clear`, else as TLS.
  void ReadRest(bool clear);
  // The hello was written; what follows goes to the socket itself.
  void WriteRestInClear() { write_clear_ = true; }

 private:
  ChannelStep AfterTls(int ret, const char* doing);
  ChannelStep AfterSocket(ssize_t ret, ChannelStep::Kind wait, const char* doing);

  const int socket_;
  const SslPtr ssl_;
  bool read_clear_ = false;
  bool write_clear_ = false;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_CHANNEL_H_
