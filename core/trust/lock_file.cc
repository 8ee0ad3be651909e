#include "core/trust/lock_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/file_system.h"
#include "core/base/regular_file.h"
#include "core/base/status_macros.h"

namespace gdf::trust {

absl::StatusOr<LockFile> LockFile::Acquire(const std::string& path) {
  GDF_ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path, O_RDWR | O_CREAT | O_NOFOLLOW));
  LockFile lock(fd);
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return ErrnoToStatus(errno, "lock", path);
    char holder[32];
    const ssize_t n = pread(fd, holder, sizeof(holder), 0);
    const absl::string_view pid =
        absl::StripAsciiWhitespace(absl::string_view(holder, n > 0 ? static_cast<size_t>(n) : 0));
    return absl::UnavailableError(absl::StrCat("another gdfd", pid.empty() ? "" : absl::StrCat(" (process ", pid, ")"),
                                               " uses this state folder: it holds ", path,
                                               ". Stop it, or give this one a folder of its own with --state-dir"));
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size())) {
    return ErrnoToStatus(errno, "write", path);
  }
  return lock;
}

LockFile::LockFile(LockFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

LockFile& LockFile::operator=(LockFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

LockFile::~LockFile() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace gdf::trust
