// One daemon per state folder: an advisory lock that the kernel drops with the process, however it ends.
#ifndef GDF_CORE_TRUST_LOCK_FILE_H_
#define GDF_CORE_TRUST_LOCK_FILE_H_

#include <string>

#include "absl/status/statusor.h"

namespace gdf::trust {

// Held while the object lives. Move-only.
class LockFile {
 public:
  // Creates `path` (0600) when missing, locks it and writes this process's id into it. kUnavailable
  // when another process holds it; the message names that process.
  static absl::StatusOr<LockFile> Acquire(const std::string& path);

  LockFile(LockFile&& other) noexcept;
  LockFile& operator=(LockFile&& other) noexcept;
  ~LockFile();

 private:
  explicit LockFile(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace gdf::trust

#endif  // GDF_CORE_TRUST_LOCK_FILE_H_
