// TLS 1.3 with one self-signed Ed25519 certificate per node; a node is its key: NodeId =
// SHA-256(public key).
#ifndef GDF_CORE_NET_TLS_CONTEXT_H_
#define GDF_CORE_NET_TLS_CONTEXT_H_

#include <openssl/ssl.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/net/record_cipher.h"

namespace gdf::net {

struct SslDeleter {
  void operator()(SSL* p) const { SSL_free(p); }
  void operator()(SSL_CTX* p) const { SSL_CTX_free(p); }
};
using SslPtr = std::unique_ptr<SSL, SslDeleter>;

// Of the application data of a session, by who writes it. There when its handshake is done.
struct TrafficSecrets {
  TrafficSecret client, server;
};

// Immutable after creation.
class TlsContext {
 public:
  // `seed` is the 32-byte Ed25519 private key (RFC 8032).
  static absl::StatusOr<TlsContext> Create(absl::Span<const uint8_t> seed);

  NodeId self() const { return self_; }
  // A session over `socket`, which must stay open for as long; not owned. `client`: the side that
  // dialled. It takes no more from the socket than the record that it reads. `secrets`: filled in its handshake.
  SslPtr NewSession(int socket, bool client, TrafficSecrets* secrets = nullptr) const;

 private:
  TlsContext() = default;
  std::unique_ptr<SSL_CTX, SslDeleter> context_;
  NodeId self_;
};

// Who is at the other end of a finished handshake.
absl::StatusOr<NodeId> PeerOf(const SSL* ssl);

// The calling thread's oldest OpenSSL error as text, or `otherwise`.
std::string TlsErrorText(const char* otherwise);

}  // namespace gdf::net

#endif  // GDF_CORE_NET_TLS_CONTEXT_H_
