#include "core/net/tls_context.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/hash.h"
#include "core/base/status_macros.h"
#include "core/net/certificate.h"
#include "core/net/channel_step.h"

namespace gdf::net {
namespace {

// AES-128-GCM is the fastest on hardware with AES instructions, ChaCha20 on hardware without.
constexpr char kCiphers[] =
    "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

absl::Status TlsError(const char* what) {
  return absl::InternalError(
      absl::StrCat("OpenSSL: ", what, ": ", TlsErrorText("no reason given")));
}

absl::StatusOr<NodeId> IdOfKey(const EVP_PKEY* key) {
  std::array<uint8_t, 32> raw;
  size_t size = raw.size();
  if (key == nullptr || EVP_PKEY_get_base_id(key) != EVP_PKEY_ED25519 ||
      EVP_PKEY_get_raw_public_key(key, raw.data(), &size) != 1 || size != raw.size()) {
    return absl::UnauthenticatedError("the certificate does not hold an Ed25519 key");
  }
  return NodeId(HashBytes(raw));
}

// Replaces chain building: there is no authority. TLS itself proves that the peer has the
// certificate's key.
int AcceptEd25519(X509_STORE_CTX* store, void*) {
  X509* cert = X509_STORE_CTX_get0_cert(store);
  const bool good = cert != nullptr && IdOfKey(X509_get0_pubkey(cert)).ok();
  if (!good) X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_REJECTED);
  return good ? 1 : 0;
}

// OpenSSL tells the secrets of a session in lines: LABEL, the client's random number and the secret, in hexadecimal.
void KeepSecret(const SSL* ssl, const char* line) {
  auto* secrets = static_cast<TrafficSecrets*>(SSL_get_app_data(ssl));
  if (secrets == nullptr) return;
  const absl::string_view text(line);
  const auto keep = [text](absl::string_view label, TrafficSecret* secret) {
    if (!absl::StartsWith(text, label)) return;
    long size = 0;
    uint8_t* bytes = OPENSSL_hexstr2buf(text.data() + text.rfind(' ') + 1, &size);
    GDF_CHECK(bytes != nullptr);
    *secret = TrafficSecret({bytes, bytes + size});
    OPENSSL_clear_free(bytes, static_cast<size_t>(size));
  };
  keep("CLIENT_TRAFFIC_SECRET_0 ", &secrets->client);
  keep("SERVER_TRAFFIC_SECRET_0 ", &secrets->server);
}

// A socket BIO whose writes do not raise SIGPIPE.
int SocketOf(BIO* bio) { return static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))); }

int SocketWrite(BIO* bio, const char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t n = send(SocketOf(bio), data, static_cast<size_t>(size), MSG_NOSIGNAL);
  if (n < 0 && WouldBlock()) BIO_set_retry_write(bio);
  return static_cast<int>(n);
}

int SocketRead(BIO* bio, char* data, int size) {
  BIO_clear_retry_flags(bio);
  const ssize_t n = recv(SocketOf(bio), data, static_cast<size_t>(size), 0);
  if (n < 0 && WouldBlock()) BIO_set_retry_read(bio);
  if (n == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(n);
}

long SocketControl(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_FLUSH) return 1;
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return 0;
}

BIO_METHOD* SocketMethod() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "gdf socket");
    GDF_CHECK(m != nullptr);
    BIO_meth_set_write(m, SocketWrite);
    BIO_meth_set_read(m, SocketRead);
    BIO_meth_set_ctrl(m, SocketControl);
    return m;
  }();
  return method;
}

}  // namespace

absl::StatusOr<TlsContext> TlsContext::Create(absl::Span<const uint8_t> seed) {
  if (seed.size() != 32) {
    return absl::InvalidArgumentError(
        absl::StrCat("an Ed25519 private key has 32 bytes, got ", seed.size()));
  }
  const PrivateKeyPtr key(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size()));
  if (!key) return TlsError("private key");
  const CertificatePtr cert = SelfSignedCertificate(key.get());
  if (!cert) return TlsError("certificate");
  TlsContext result;
  GDF_ASSIGN_OR_RETURN(result.self_, IdOfKey(key.get()));
  result.context_.reset(SSL_CTX_new(TLS_method()));
  SSL_CTX* ctx = result.context_.get();
  if (ctx == nullptr || SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(ctx, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(ctx, kCiphers) != 1 ||
      SSL_CTX_set1_sigalgs_list(ctx, "ed25519") != 1 ||
      SSL_CTX_use_certificate(ctx, cert.get()) != 1 ||
      SSL_CTX_use_PrivateKey(ctx, key.get()) != 1 || SSL_CTX_set_num_tickets(ctx, 0) != 1) {
    return TlsError("TLS context");
  }
  SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  SSL_CTX_set_cert_verify_callback(ctx, AcceptEd25519, nullptr);
  SSL_CTX_set_keylog_callback(ctx, KeepSecret);
  return result;
}

SslPtr TlsContext::NewSession(int socket, bool client, TrafficSecrets* secrets) const {
  SslPtr ssl(SSL_new(context_.get()));
  BIO* bio = BIO_new(SocketMethod());
  GDF_CHECK(ssl != nullptr && bio != nullptr);
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(socket)));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl.get(), bio, bio);
  SSL_set_app_data(ssl.get(), secrets);
  if (client) {
    SSL_set_connect_state(ssl.get());
  } else {
    SSL_set_accept_state(ssl.get());
  }
  return ssl;
}

absl::StatusOr<NodeId> PeerOf(const SSL* ssl) {
  X509* cert = SSL_get0_peer_certificate(ssl);
  if (cert == nullptr) return absl::UnauthenticatedError("the peer presented no certificate");
  return IdOfKey(X509_get0_pubkey(cert));
}

std::string TlsErrorText(const char* otherwise) {
  const unsigned long code = ERR_get_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason == nullptr ? otherwise : reason;
}

}  // namespace gdf::net
