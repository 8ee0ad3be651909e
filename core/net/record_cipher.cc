#include "core/net/record_cipher.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/objects.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/base/check.h"

namespace gdf::net {
namespace {

OSSL_PARAM Octets(const char* name, const void* data, size_t bytes) {
  return OSSL_PARAM_construct_octet_string(name, const_cast<void*>(data), bytes);
}

}  // namespace

TrafficSecret::~TrafficSecret() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

RecordCipher::RecordCipher(const SSL_CIPHER* suite, TrafficSecret secret, bool seals)
    : hash_(SSL_CIPHER_get_handshake_digest(suite)),
      seals_(seals),
      cipher_(EVP_CIPHER_fetch(nullptr, OBJ_nid2sn(SSL_CIPHER_get_cipher_nid(suite)), nullptr)),
      context_(EVP_CIPHER_CTX_new()),
      secret_(std::move(secret)) {
  GDF_CHECK(cipher_ != nullptr && context_ != nullptr && hash_ != nullptr);
  GDF_CHECK(secret_.span().size() == static_cast<size_t>(EVP_MD_get_size(hash_)));
  TakeKey();
}

// HKDF-Expand-Label(secret, label, "", bytes) of section 7.1.
std::vector<uint8_t> RecordCipher::Expand(const char* label, size_t bytes) const {
  EVP_KDF* kdf = EVP_KDF_fetch(nullptr, OSSL_KDF_NAME_TLS1_3_KDF, nullptr);
  EVP_KDF_CTX* context = EVP_KDF_CTX_new(kdf);
  constexpr char kPrefix[] = "tls13 ";
  int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
  const OSSL_PARAM params[] = {
      OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
      OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, const_cast<char*>(EVP_MD_get0_name(hash_)), 0),
      Octets(OSSL_KDF_PARAM_KEY, secret_.span().data(), secret_.span().size()),
      Octets(OSSL_KDF_PARAM_PREFIX, kPrefix, std::strlen(kPrefix)),
      Octets(OSSL_KDF_PARAM_LABEL, label, std::strlen(label)),
      OSSL_PARAM_construct_end()};
  std::vector<uint8_t> out(bytes);
  GDF_CHECK(EVP_KDF_derive(context, out.data(), out.size(), params) == 1);
  EVP_KDF_CTX_free(context);
  EVP_KDF_free(kdf);
  return out;
}

void RecordCipher::TakeKey() {
  std::vector<uint8_t> key = Expand("key", static_cast<size_t>(EVP_CIPHER_get_key_length(cipher_.get())));
  const std::vector<uint8_t> iv = Expand("iv", kNonceBytes);
  std::copy(iv.begin(), iv.end(), iv_.begin());
  GDF_CHECK(EVP_CipherInit_ex2(context_.get(), cipher_.get(), key.data(), nullptr, seals_ ? 1 : 0, nullptr) == 1);
  OPENSSL_cleanse(key.data(), key.size());
  sequence_ = 0;
}

void RecordCipher::Advance() {
  secret_ = TrafficSecret(Expand("traffic upd", secret_.span().size()));
  TakeKey();
}

RecordCipher::Nonce RecordCipher::NextNonce() {
  Nonce nonce = iv_;
  for (size_t i = 0; i < sizeof(sequence_); ++i) {
    nonce[kNonceBytes - 1 - i] ^= static_cast<uint8_t>(sequence_ >> (8 * i));
  }
  ++sequence_;
  return nonce;
}

void RecordCipher::Seal(RecordType type, absl::Span<const uint8_t> plaintext, uint8_t* to) {
  GDF_CHECK(plaintext.size() <= kRecordBytes);
  const size_t sealed = plaintext.size() + 1 + kRecordTagBytes;
  uint8_t* const header = to;
  const uint8_t header_bytes[kRecordHeaderBytes] = {static_cast<uint8_t>(RecordType::kData), 3, 3,
                                                    static_cast<uint8_t>(sealed >> 8), static_cast<uint8_t>(sealed)};
  std::memcpy(header, header_bytes, kRecordHeaderBytes);
  to += kRecordHeaderBytes;
  const Nonce nonce = NextNonce();
  const auto type_byte = static_cast<uint8_t>(type);
  EVP_CIPHER_CTX* context = context_.get();
  int n = 0;
  GDF_CHECK(EVP_EncryptInit_ex2(context, nullptr, nullptr, nonce.data(), nullptr) == 1 &&
            EVP_EncryptUpdate(context, nullptr, &n, header, kRecordHeaderBytes) == 1 &&
            EVP_EncryptUpdate(context, to, &n, plaintext.data(), static_cast<int>(plaintext.size())) == 1 &&
            EVP_EncryptUpdate(context, to + plaintext.size(), &n, &type_byte, 1) == 1 &&
            EVP_EncryptFinal_ex(context, to + plaintext.size() + 1, &n) == 1 &&
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, kRecordTagBytes, to + plaintext.size() + 1) == 1);
}

bool RecordCipher::Open(const uint8_t* header, absl::Span<const uint8_t> sealed, uint8_t* to, uint8_t* last) {
  GDF_CHECK(sealed.size() > kRecordTagBytes);
  const size_t protected_bytes = sealed.size() - kRecordTagBytes;
  const size_t most = protected_bytes - 1;
  auto* const tag = const_cast<uint8_t*>(sealed.data() + protected_bytes);  // it is only read
  const Nonce nonce = NextNonce();
  EVP_CIPHER_CTX* context = context_.get();
  int n = 0;
  return EVP_DecryptInit_ex2(context, nullptr, nullptr, nonce.data(), nullptr) == 1 &&
         EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, kRecordTagBytes, tag) == 1 &&
         EVP_DecryptUpdate(context, nullptr, &n, header, kRecordHeaderBytes) == 1 &&
         EVP_DecryptUpdate(context, to, &n, sealed.data(), static_cast<int>(most)) == 1 &&
         EVP_DecryptUpdate(context, last, &n, sealed.data() + most, 1) == 1 &&
         EVP_DecryptFinal_ex(context, last + 1, &n) == 1;
}

}  // namespace gdf::net
