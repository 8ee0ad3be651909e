// The self-signed Ed25519 certificate that stands for a node's key.
#ifndef GDF_CORE_NET_CERTIFICATE_H_
#define GDF_CORE_NET_CERTIFICATE_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gdf::net {

struct OpensslDeleter {
  void operator()(EVP_PKEY* p) const { EVP_PKEY_free(p); }
  void operator()(X509* p) const { X509_free(p); }
};
using PrivateKeyPtr = std::unique_ptr<EVP_PKEY, OpensslDeleter>;
using CertificatePtr = std::unique_ptr<X509, OpensslDeleter>;

// Null when OpenSSL fails. Name ("gdf-node") and dates are the same for all: nobody reads them, the
// key is what counts (RFC 5280 4.1.2.5: no expiry).
CertificatePtr SelfSignedCertificate(EVP_PKEY* key);

struct CertificatePem {
  std::string certificate;
  std::string private_key;
};

// For TLS servers that take texts. `seed`: the 32-byte Ed25519 private key (RFC 8032);
// kInvalidArgument for another size.
absl::StatusOr<CertificatePem> MakeCertificatePem(absl::Span<const uint8_t> seed);

}  // namespace gdf::net

#endif  // GDF_CORE_NET_CERTIFICATE_H_
