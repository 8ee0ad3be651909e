#include "core/net/certificate.h"

#include <openssl/pem.h>

#include "absl/strings/str_cat.h"

namespace gdf::net {
namespace {

struct BioDeleter {
  void operator()(BIO* p) const { BIO_free(p); }
};
using BioPtr = std::unique_ptr<BIO, BioDeleter>;

std::string Contents(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(size));
}

}  // namespace

CertificatePtr SelfSignedCertificate(EVP_PKEY* key) {
  CertificatePtr cert(X509_new());
  if (!cert || X509_set_version(cert.get(), X509_VERSION_3) != 1 ||
      ASN1_INTEGER_set(X509_get_serialNumber(cert.get()), 1) != 1 ||
      ASN1_TIME_set_string(X509_getm_notBefore(cert.get()), "19700101000000Z") != 1 ||
      ASN1_TIME_set_string(X509_getm_notAfter(cert.get()), "99991231235959Z") != 1 ||
      X509_NAME_add_entry_by_txt(X509_get_subject_name(cert.get()), "CN", MBSTRING_ASC,
                                 reinterpret_cast<const unsigned char*>("gdf-node"), -1, -1,
                                 0) != 1 ||
      X509_set_issuer_name(cert.get(), X509_get_subject_name(cert.get())) != 1 ||
      X509_set_pubkey(cert.get(), key) != 1 || X509_sign(cert.get(), key, nullptr) == 0) {
    return nullptr;
  }
  return cert;
}

absl::StatusOr<CertificatePem> MakeCertificatePem(absl::Span<const uint8_t> seed) {
  if (seed.size() != 32) {
    return absl::InvalidArgumentError(
        absl::StrCat("an Ed25519 private key has 32 bytes, got ", seed.size()));
  }
  const PrivateKeyPtr key(
      EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed.data(), seed.size()));
  const CertificatePtr certificate(key ? SelfSignedCertificate(key.get()) : nullptr);
  const BioPtr certificate_text(BIO_new(BIO_s_mem())), key_text(BIO_new(BIO_s_secmem()));
  if (!certificate || !certificate_text || !key_text ||
      PEM_write_bio_X509(certificate_text.get(), certificate.get()) != 1 ||
      PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) !=
          1) {
    return absl::InternalError("OpenSSL cannot write the node's certificate");
  }
  return CertificatePem{Contents(certificate_text.get()), Contents(key_text.get())};
}

}  // namespace gdf::net
