// What a connection reads and writes through: TLS over its socket and, after the hello, where both
// owners have said that they trust the network between them, the socket itself.
#ifndef GDF_CORE_NET_CHANNEL_H_
#define GDF_CORE_NET_CHANNEL_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/net/channel_step.h"
#include "core/net/records.h"
#include "core/net/tls_context.h"

namespace gdf::net {

// I/O thread only.
class Channel {
 public:
  // Over `socket`, which must stay open for as long; not owned. `client`: the side that dialled.
  Channel(const TlsContext& tls, int socket, bool client);

  ChannelStep Handshake();
  // Who is at the other end, after the handshake.
  const absl::StatusOr<NodeId>& Peer() const { return peer_; }

  ChannelStep Read(absl::Span<uint8_t> to);
  // Some of `from`, as Records::Write.
  ChannelStep Write(absl::Span<const uint8_t> from, bool more);
  // Whether a read has ended with what the peer must not send: it was told why, and nothing more may be written.
  bool Refused() const { return records_ && records_->Refused(); }
  // Says that no more is written.
  void Finish();

  // The hello was read. What follows is read from the socket itself with `clear`, else as TLS.
  void ReadRest(bool clear);
  // The hello was written; what follows goes to the socket itself.
  void WriteRestInClear() { write_clear_ = true; }

 private:
  const int socket_;
  const bool client_;
  TrafficSecrets secrets_;
  SslPtr ssl_;  // until the handshake is done; then the next two are there
  absl::StatusOr<NodeId> peer_;
  std::optional<Records> records_;
  bool read_clear_ = false;
  bool write_clear_ = false;
  bool finished_ = false;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_CHANNEL_H_
