// The sealed archive of `gdfctl backup`: the node key and the network's state, under a passphrase
// (docs/formats/backup.md).
#ifndef GDF_GDFD_SERVICES_BACKUP_H_
#define GDF_GDFD_SERVICES_BACKUP_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/base/file_system.h"
#include "core/base/rng.h"
#include "core/trust/node_key.h"

namespace gdf::services {

inline constexpr uint64_t kMaxBackupStateBytes = uint64_t{1} << 30;
inline constexpr uint64_t kMaxArchiveBytes = kMaxBackupStateBytes + 1024;

struct Backup {
  trust::NodeKey key;
  std::string state;  // the bytes of state.db; empty when the node was in no network
};

// kInvalidArgument when the passphrase is shorter than 8 bytes. Takes about a second and 64 MiB:
// the passphrase is stretched with Argon2id.
absl::StatusOr<std::string> SealBackup(const trust::NodeKey& key, std::string_view state,
                                       std::string_view passphrase, Rng& rng);
// kPermissionDenied when the passphrase is wrong or the archive was changed, kInvalidArgument when
// it is none.
absl::StatusOr<Backup> OpenBackup(std::string_view archive, std::string_view passphrase);

struct Restored {
  NodeId node;
  std::string network;       // its name; empty: none
  uint64_t log_entries = 0;  // up to which its state goes
};
// Puts what an archive has into the state folder, which is made when missing. kAlreadyExists, with
// nothing changed, when that has a key or a state; else as OpenBackup.
absl::StatusOr<Restored> RestoreBackup(FileSystem& files, std::string_view archive,
                                       std::string_view passphrase, const std::string& state_dir);

}  // namespace gdf::services

#endif  // GDF_GDFD_SERVICES_BACKUP_H_
