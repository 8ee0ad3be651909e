// TLS 1.3's protection of the records of one direction (RFC 8446, sections 5.2, 5.3 and 7.3), from where a handshake by
// OpenSSL ends: from the caller's buffer into another and back, without the copies that OpenSSL's own records take.
#ifndef GDF_CORE_NET_RECORD_CIPHER_H_
#define GDF_CORE_NET_RECORD_CIPHER_H_

#include <openssl/crypto.h>
#include <openssl/ssl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"

namespace gdf::net {

inline constexpr size_t kRecordBytes = 16 << 10;  // the largest plaintext of a record (section 5.1)
inline constexpr size_t kRecordHeaderBytes = 5;
inline constexpr size_t kRecordTagBytes = 16;
// What a sealed record has beside its plaintext: header, type, tag.
inline constexpr size_t kRecordOverhead = kRecordHeaderBytes + 1 + kRecordTagBytes;
inline constexpr size_t kMaxSealedBytes = kRecordBytes + 1 + kRecordTagBytes;  // that follow a header; padding counts

enum class RecordType : uint8_t { kPadding = 0, kAlert = 21, kHandshake = 22, kData = 23 };

// A direction's traffic secret, wiped when it goes or another takes its place.
class TrafficSecret {
 public:
  TrafficSecret() = default;
  explicit TrafficSecret(std::vector<uint8_t> bytes) : bytes_(std::move(bytes)) {}
  ~TrafficSecret();
  TrafficSecret(TrafficSecret&&) = default;
  TrafficSecret& operator=(TrafficSecret&& other) noexcept {
    std::swap(bytes_, other.bytes_);
    OPENSSL_cleanse(other.bytes_.data(), other.bytes_.size());
    return *this;
  }

  absl::Span<const uint8_t> span() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

// Not thread-safe.
class RecordCipher {
 public:
  // `suite`: the one that the handshake has chosen. `seals`: for the direction that is written.
  RecordCipher(const SSL_CIPHER* suite, TrafficSecret secret, bool seals);

  // Writes header, ciphertext and tag of one record to `to`: plaintext.size() + kRecordOverhead bytes.
  void Seal(RecordType type, absl::Span<const uint8_t> plaintext, uint8_t* to);

  // The `sealed` bytes that follow a record's `header`, at least kRecordTagBytes + 1. All but the last byte of what they
  // protect go to `to` and that one to `last`. False when they are not what the peer sealed next: nothing of it is to be
  // used then.
  bool Open(const uint8_t* header, absl::Span<const uint8_t> sealed, uint8_t* to, uint8_t* last);

  // The next key, after a KeyUpdate (section 4.6.3).
  void Advance();
  uint64_t records() const { return sequence_; }  // under this key

 private:
  struct Free {
    void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
    void operator()(EVP_CIPHER* cipher) const { EVP_CIPHER_free(cipher); }
  };
  static constexpr size_t kNonceBytes = 12;
  using Nonce = std::array<uint8_t, kNonceBytes>;

  std::vector<uint8_t> Expand(const char* label, size_t bytes) const;
  void TakeKey();
  Nonce NextNonce();

  const EVP_MD* const hash_;
  const bool seals_;
  std::unique_ptr<EVP_CIPHER, Free> cipher_;
  std::unique_ptr<EVP_CIPHER_CTX, Free> context_;
  TrafficSecret secret_;
  Nonce iv_{};
  uint64_t sequence_ = 0;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_RECORD_CIPHER_H_
