// The sealed archive of `gdfctl backup`: the node key and the network's genesis, under a passphrase
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

struct Backup {
  trust::NodeKey key;
  std::string genesis;  // signed record; empty when the node was in no network
};

// kInvalidArgument when the passphrase is shorter than 8 bytes. Takes about a second and 64 MiB:
// the passphrase is stretched with Argon2id.
absl::StatusOr<std::string> SealBackup(const trust::NodeKey& key, std::string_view genesis,
                                       std::string_view passphrase, Rng& rng);
// kPermissionDenied when the passphrase is wrong or the archive was changed, kInvalidArgument when
// it is none.
absl::StatusOr<Backup> OpenBackup(std::string_view archive, std::string_view passphrase);
// Puts the key of an archive into the state folder, which is made when missing. kAlreadyExists when
// it has a key; else as OpenBackup.
absl::Status RestoreBackup(FileSystem& files, std::string_view archive, std::string_view passphrase,
                           const std::string& state_dir);

}  // namespace gdf::services

#endif  // GDF_GDFD_SERVICES_BACKUP_H_
