#include "core/trust/node_key.h"

#include <sodium.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "core/base/byte_io.h"
#include "core/base/check.h"
#include "core/base/encoding.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/trust/private_file.h"

namespace gdf::trust {
namespace {

constexpr std::string_view kFilePrefix = "gdf-node-key-1 ";
constexpr std::string_view kSignaturePrefix = "gdf-signature-1";
constexpr std::string_view kRotationLabel = "gdf key rotation 1";
constexpr std::string_view kRotationMagic = "GDFKR1";
constexpr uint64_t kMaxKeyFileBytes = 256;
constexpr size_t kCheckBytes = 4;  // against damage, not against attack

void InitSodium() {
  static const bool ready = sodium_init() >= 0;
  GDF_CHECK(ready);
}

std::string SignedBytes(std::string_view label, std::string_view message) {
  return ByteWriter().Bytes(kSignaturePrefix).U64(label.size()).Bytes(label).Bytes(message).Take();
}

std::string Checksum(std::string_view seed) {
  return std::string(AsString(HashBytes(seed).span().first(kCheckBytes)));
}

}  // namespace

NodeId NodeIdOf(const PublicKey& key) { return NodeId(HashBytes(absl::MakeConstSpan(key))); }

absl::StatusOr<PublicKey> PublicKeyFromBytes(std::string_view raw) {
  PublicKey key;
  if (raw.size() != key.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a public key has ", raw.size(), " bytes, expected ", key.size()));
  }
  std::memcpy(key.data(), raw.data(), key.size());
  return key;
}

absl::StatusOr<Signature> SignatureFromBytes(std::string_view raw) {
  Signature signature;
  if (raw.size() != signature.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a signature has ", raw.size(), " bytes, expected ", signature.size()));
  }
  std::memcpy(signature.data(), raw.data(), signature.size());
  return signature;
}

NodeKey NodeKey::FromSeed(const Seed& seed) {
  InitSodium();
  NodeKey key;
  GDF_CHECK(crypto_sign_seed_keypair(key.public_key_.data(), key.secret_.data(), seed.data()) == 0);
  return key;
}

NodeKey NodeKey::Generate(Rng& rng) {
  Seed seed;
  rng.Fill(absl::MakeSpan(seed));
  NodeKey key = FromSeed(seed);
  sodium_memzero(seed.data(), seed.size());
  return key;
}

NodeKey::NodeKey(NodeKey&& other) noexcept : public_key_(other.public_key_), secret_(other.secret_) {
  sodium_memzero(other.secret_.data(), other.secret_.size());
}

NodeKey& NodeKey::operator=(NodeKey&& other) noexcept {
  if (this != &other) {
    public_key_ = other.public_key_;
    secret_ = other.secret_;
    sodium_memzero(other.secret_.data(), other.secret_.size());
  }
  return *this;
}

NodeKey::~NodeKey() { sodium_memzero(secret_.data(), secret_.size()); }

absl::StatusOr<NodeKey> NodeKey::Load(FileSystem& files, const std::string& path) {
  GDF_RETURN_IF_ERROR(CheckPrivate(files, path, "the key file", OthersMay::kNothing));
  GDF_ASSIGN_OR_RETURN(std::string text, files.Read(path, kMaxKeyFileBytes));
  const absl::Status damaged = absl::DataLossError(
      absl::StrCat("the key file ", path, " is damaged: restore it from a backup, or remove it to start as a new node"));
  absl::string_view view = text;
  if (!absl::ConsumePrefix(&view, ToAbsl(kFilePrefix)) || !absl::ConsumeSuffix(&view, "\n")) return damaged;
  absl::StatusOr<std::string> raw = Base32Decode(ToStd(view));
  sodium_memzero(text.data(), text.size());
  if (!raw.ok() || raw->size() != kSeedBytes + kCheckBytes) return damaged;
  const std::string_view seed_view = std::string_view(*raw).substr(0, kSeedBytes);
  if (Checksum(seed_view) != std::string_view(*raw).substr(kSeedBytes)) return damaged;
  Seed seed;
  std::memcpy(seed.data(), seed_view.data(), kSeedBytes);
  NodeKey key = FromSeed(seed);
  sodium_memzero(seed.data(), seed.size());
  sodium_memzero(raw->data(), raw->size());
  return key;
}

absl::StatusOr<NodeKey> NodeKey::LoadOrCreate(FileSystem& files, const std::string& path, Rng& rng) {
  absl::StatusOr<NodeKey> key = Load(files, path);
  if (!absl::IsNotFound(key.status())) return key;
  NodeKey fresh = Generate(rng);
  GDF_RETURN_IF_ERROR(fresh.Save(files, path));
  return fresh;
}

absl::Status NodeKey::Save(FileSystem& files, const std::string& path) const {
  std::string raw(AsString(private_seed()));
  raw += Checksum(raw);
  std::string text = absl::StrCat(ToAbsl(kFilePrefix), Base32Encode(AsBytes(raw)), "\n");
  const absl::Status status = files.WriteAtomic(path, text, 0600);
  sodium_memzero(raw.data(), raw.size());
  sodium_memzero(text.data(), text.size());
  return status;
}

Signature NodeKey::Sign(std::string_view label, std::string_view message) const {
  const std::string bytes = SignedBytes(label, message);
  Signature signature;
  GDF_CHECK(crypto_sign_detached(signature.data(), nullptr, AsBytes(bytes).data(), bytes.size(), secret_.data()) == 0);
  return signature;
}

absl::Status Verify(const PublicKey& key, std::string_view label, std::string_view message,
                    const Signature& signature) {
  InitSodium();
  const std::string bytes = SignedBytes(label, message);
  if (crypto_sign_verify_detached(signature.data(), AsBytes(bytes).data(), bytes.size(), key.data()) == 0) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat("the signature over a ", ToAbsl(label), " record is not node ",
                                                  NodeIdOf(key).Short(), "'s"));
}

std::string KeyRotation::Make(const NetworkId& network, const NodeKey& old_key, const NodeKey& new_key,
                              int64_t at_unix_ms) {
  ByteWriter out;
  out.Bytes(kRotationMagic).Bytes(network.digest().bytes);
  out.Bytes(old_key.public_key()).Bytes(new_key.public_key()).U64(static_cast<uint64_t>(at_unix_ms));
  const std::string body = out.str();
  return out.Bytes(old_key.Sign(kRotationLabel, body)).Bytes(new_key.Sign(kRotationLabel, body)).Take();
}

absl::StatusOr<KeyRotation> KeyRotation::Parse(std::string_view record) {
  ByteReader in(record);
  const std::string_view magic = in.Bytes(kRotationMagic.size());
  KeyRotation rotation;
  rotation.network = NetworkId(in.Digest());
  rotation.old_key = in.Array<32>();
  rotation.new_key = in.Array<32>();
  rotation.at_unix_ms = static_cast<int64_t>(in.U64());
  const size_t body_size = record.size() - in.left();
  const Signature by_old = in.Array<64>();
  const Signature by_new = in.Array<64>();
  if (!in.Done() || magic != kRotationMagic || rotation.at_unix_ms < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(record.size(), " bytes are not a key rotation record (docs/formats/genesis.md)"));
  }
  const std::string_view body = record.substr(0, body_size);
  GDF_RETURN_IF_ERROR(Verify(rotation.old_key, kRotationLabel, body, by_old));
  GDF_RETURN_IF_ERROR(Verify(rotation.new_key, kRotationLabel, body, by_new));
  return rotation;
}

}  // namespace gdf::trust
