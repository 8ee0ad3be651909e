#include "gdfd/services/backup.h"

#include <sodium.h>

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/state/state.h"

namespace gdf::services {
namespace {

constexpr std::string_view kMagic = "gdf-backup-2\n";
constexpr size_t kSaltBytes = crypto_pwhash_SALTBYTES;
constexpr size_t kNonceBytes = crypto_aead_xchacha20poly1305_ietf_NPUBBYTES;
constexpr size_t kTagBytes = crypto_aead_xchacha20poly1305_ietf_ABYTES;
constexpr size_t kHeaderBytes = kMagic.size() + kSaltBytes + kNonceBytes;
constexpr size_t kMinPassphraseBytes = 8;

using AeadKey = std::array<uint8_t, crypto_aead_xchacha20poly1305_ietf_KEYBYTES>;

bool Stretch(std::string_view passphrase, const uint8_t* salt, AeadKey* key) {
  return crypto_pwhash(key->data(), key->size(), passphrase.data(), passphrase.size(), salt,
                       crypto_pwhash_OPSLIMIT_INTERACTIVE, crypto_pwhash_MEMLIMIT_INTERACTIVE,
                       crypto_pwhash_ALG_ARGON2ID13) == 0;
}

const uint8_t* Raw(const std::string& s, size_t at = 0) {
  return reinterpret_cast<const uint8_t*>(s.data()) + at;
}
uint8_t* Raw(std::string& s, size_t at = 0) { return reinterpret_cast<uint8_t*>(s.data()) + at; }

}  // namespace

absl::StatusOr<std::string> SealBackup(const trust::NodeKey& key, std::string_view state,
                                       std::string_view passphrase, Rng& rng) {
  if (passphrase.size() < kMinPassphraseBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the passphrase needs at least ", kMinPassphraseBytes, " characters"));
  }
  const absl::Span<const uint8_t> seed = key.private_seed();
  std::string plain(reinterpret_cast<const char*>(seed.data()), seed.size());
  plain.append(state);
  std::string archive(kHeaderBytes + plain.size() + kTagBytes, '\0');
  std::memcpy(archive.data(), kMagic.data(), kMagic.size());
  rng.Fill(absl::MakeSpan(Raw(archive, kMagic.size()), kSaltBytes + kNonceBytes));
  AeadKey aead;
  if (!Stretch(passphrase, Raw(archive, kMagic.size()), &aead)) {
    return absl::ResourceExhaustedError("no memory to stretch the passphrase (64 MiB)");
  }
  unsigned long long sealed = 0;  // NOLINT: libsodium's type
  crypto_aead_xchacha20poly1305_ietf_encrypt(Raw(archive, kHeaderBytes), &sealed, Raw(plain),
                                             plain.size(), Raw(archive), kHeaderBytes, nullptr,
                                             Raw(archive, kMagic.size() + kSaltBytes), aead.data());
  sodium_memzero(aead.data(), aead.size());
  sodium_memzero(plain.data(), plain.size());
  return archive;
}

absl::StatusOr<Backup> OpenBackup(std::string_view archive, std::string_view passphrase) {
  const std::string bytes(archive);
  if (bytes.size() < kHeaderBytes + trust::NodeKey::kSeedBytes + kTagBytes ||
      bytes.size() > kMaxArchiveBytes || archive.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError("this is no gdf backup");
  }
  AeadKey aead;
  if (!Stretch(passphrase, Raw(bytes, kMagic.size()), &aead)) {
    return absl::ResourceExhaustedError("no memory to stretch the passphrase (64 MiB)");
  }
  std::string plain(bytes.size() - kHeaderBytes - kTagBytes, '\0');
  unsigned long long opened = 0;  // NOLINT: libsodium's type
  const int rc = crypto_aead_xchacha20poly1305_ietf_decrypt(
      Raw(plain), &opened, nullptr, Raw(bytes, kHeaderBytes), bytes.size() - kHeaderBytes,
      Raw(bytes), kHeaderBytes, Raw(bytes, kMagic.size() + kSaltBytes), aead.data());
  sodium_memzero(aead.data(), aead.size());
  if (rc != 0) return absl::PermissionDeniedError("wrong passphrase, or the backup was changed");
  trust::NodeKey::Seed seed;
  std::memcpy(seed.data(), plain.data(), seed.size());
  Backup backup{trust::NodeKey::FromSeed(seed), plain.substr(seed.size())};
  sodium_memzero(seed.data(), seed.size());
  sodium_memzero(plain.data(), plain.size());
  return backup;
}

// The key comes last: a folder that has it has been restored whole.
absl::StatusOr<Restored> RestoreBackup(FileSystem& files, std::string_view archive,
                                       std::string_view passphrase, const std::string& state_dir) {
  GDF_ASSIGN_OR_RETURN(Backup backup, OpenBackup(archive, passphrase));
  const std::string key_path = state_dir + "/node.key", state_path = state_dir + "/state.db";
  for (const std::string& path : {key_path, state_path}) {
    if (files.Exists(path)) {
      return absl::AlreadyExistsError(path + " exists; a restore does not overwrite a node");
    }
  }
  GDF_RETURN_IF_ERROR(files.MakeFolders(state_dir, 0700));
  Restored restored;
  restored.node = backup.key.id();
  if (!backup.state.empty())
    GDF_RETURN_IF_ERROR(files.WriteAtomic(state_path, backup.state, 0600));
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<state::State> state, state::State::Open(state_path));
  if (state->has_network()) {
    GDF_ASSIGN_OR_RETURN(state::Network network, state->network());
    restored.network = network.genesis.name;
    restored.log_entries = state->last_applied();
    // It may have promised other coordinators more than the backup knows.
    if (network.coordinators.size() > 1) GDF_RETURN_IF_ERROR(state->Abstain());
  }
  GDF_RETURN_IF_ERROR(backup.key.Save(files, key_path));
  return restored;
}

}  // namespace gdf::services
