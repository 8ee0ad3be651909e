// The one place that chooses a hash: SHA-256 (hardware instructions make it faster here than BLAKE2b),
// and the Merkle root over 1 MiB leaves by which nodes compare large buffers (docs/formats/digest.md).
#ifndef GDF_CORE_BASE_HASH_H_
#define GDF_CORE_BASE_HASH_H_

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gdf {

// 32 bytes of SHA-256.
struct Digest {
  static constexpr size_t kSize = 32;
  std::array<uint8_t, kSize> bytes{};

  auto operator<=>(const Digest&) const = default;
  absl::Span<const uint8_t> span() const { return bytes; }
  bool zero() const { return *this == Digest{}; }
  std::string ToHex() const;
  // First 12 hexadecimal digits, for people.
  std::string Short() const { return ToHex().substr(0, 12); }
  // kInvalidArgument unless exactly 32 raw bytes.
  static absl::StatusOr<Digest> FromBytes(std::string_view raw);
  static absl::StatusOr<Digest> FromHex(std::string_view text);

  template <typename H>
  friend H AbslHashValue(H h, const Digest& d) {
    return H::combine(std::move(h), d.bytes);
  }
};

// Incremental SHA-256. One thread at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256& Update(absl::Span<const uint8_t> data);
  Sha256& Update(std::string_view data);
  Sha256& UpdateU64(uint64_t value);  // little endian
  Digest Finish();                    // once

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

Digest HashBytes(absl::Span<const uint8_t> data);
Digest HashBytes(std::string_view data);

inline constexpr size_t kMerkleLeafBytes = size_t{1} << 20;

// leaf = SHA-256(0x00 ‖ bytes); node = SHA-256(0x01 ‖ left ‖ right); a lone node moves up unchanged (RFC 6962).
// The root binds the length: SHA-256(0x02 ‖ u64 length ‖ top). 0 bytes: top is 32 zero bytes.
Digest MerkleLeaf(absl::Span<const uint8_t> leaf);
Digest MerkleRootOfLeaves(std::vector<Digest> leaves, uint64_t total_bytes);
Digest MerkleRoot(absl::Span<const uint8_t> data);

}  // namespace gdf

#endif  // GDF_CORE_BASE_HASH_H_
