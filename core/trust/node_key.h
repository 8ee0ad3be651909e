// A node's identity: an Ed25519 key (RFC 8032). NodeId = SHA-256 of the public key. Signatures are
// bound to a label, so that one made for one purpose is worthless for another.
//
//   GDF_ASSIGN_OR_RETURN(NodeKey key, NodeKey::LoadOrCreate(files, state + "/node.key", rng));
//   Signature s = key.Sign("gdf receipt 1", bytes);
//   GDF_RETURN_IF_ERROR(Verify(key.public_key(), "gdf receipt 1", bytes, s));
#ifndef GDF_CORE_TRUST_NODE_KEY_H_
#define GDF_CORE_TRUST_NODE_KEY_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/file_system.h"
#include "core/base/ids.h"
#include "core/base/rng.h"

namespace gdf::trust {

using PublicKey = std::array<uint8_t, 32>;
using Signature = std::array<uint8_t, 64>;

NodeId NodeIdOf(const PublicKey& key);

// kInvalidArgument unless `raw` has the right number of bytes.
absl::StatusOr<PublicKey> PublicKeyFromBytes(std::string_view raw);
absl::StatusOr<Signature> SignatureFromBytes(std::string_view raw);

// Move-only; the seed is wiped from memory on destruction. Const methods are safe from any thread.
class NodeKey {
 public:
  static constexpr size_t kSeedBytes = 32;
  using Seed = std::array<uint8_t, kSeedBytes>;

  // `rng` must be fit for keys (SystemRng) except in tests.
  static NodeKey Generate(Rng& rng);
  static NodeKey FromSeed(const Seed& seed);

  // Reads a key file. kPermissionDenied when others may read or write it or someone else owns it (the
  // message has the command that mends it), kDataLoss when damaged, kNotFound.
  static absl::StatusOr<NodeKey> Load(FileSystem& files, const std::string& path);
  // Load, or, for a node that has none yet, a new key, saved with mode 0600 in one atomic step.
  static absl::StatusOr<NodeKey> LoadOrCreate(FileSystem& files, const std::string& path, Rng& rng);
  // Writes the key file (also the form of a backup: restoring is copying it back). Replaces `path`.
  absl::Status Save(FileSystem& files, const std::string& path) const;

  NodeKey(NodeKey&& other) noexcept;
  NodeKey& operator=(NodeKey&& other) noexcept;
  ~NodeKey();

  const PublicKey& public_key() const { return public_key_; }
  NodeId id() const { return NodeIdOf(public_key_); }
  // The private seed (RFC 8032), for the TLS certificate. Not to be copied elsewhere.
  absl::Span<const uint8_t> private_seed() const { return {secret_.data(), kSeedBytes}; }

  // Signs "gdf-signature-1" ‖ u64 length of label ‖ label ‖ message. Deterministic.
  Signature Sign(std::string_view label, std::string_view message) const;

 private:
  NodeKey() = default;
  PublicKey public_key_{};
  std::array<uint8_t, 64> secret_{};  // seed ‖ public key
};

// kPermissionDenied when `signature` is not `key`'s for this label and message.
absl::Status Verify(const PublicKey& key, std::string_view label, std::string_view message,
                    const Signature& signature);

// A node replaces its key: the old key signs the new one, and the new one signs back to show that its
// private half is held. Bytes: docs/formats/genesis.md.
struct KeyRotation {
  NetworkId network;
  PublicKey old_key{};
  PublicKey new_key{};
  int64_t at_unix_ms = 0;

  // The signed record.
  static std::string Make(const NetworkId& network, const NodeKey& old_key, const NodeKey& new_key,
                          int64_t at_unix_ms);
  // Parses and checks both signatures. kInvalidArgument on bad bytes, kPermissionDenied on a bad
  // signature.
  static absl::StatusOr<KeyRotation> Parse(std::string_view record);
};

}  // namespace gdf::trust

#endif  // GDF_CORE_TRUST_NODE_KEY_H_
