#include "core/base/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "core/base/file_system.h"

namespace gdf {

absl::StatusOr<int> OpenRegularFile(const std::string& path, int flags, mode_t mode) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode);
  if (fd < 0) {
    if (errno == ENXIO) return absl::InvalidArgumentError(path + " is not a regular file");  // a socket, or a pipe's end
    if (errno == ELOOP && (flags & O_NOFOLLOW) != 0) {
      return absl::InvalidArgumentError(path + " is a symbolic link, which is not followed here");
    }
    return ErrnoToStatus(errno, "open", path);
  }
  struct stat info;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) return fd;
  close(fd);
  return absl::InvalidArgumentError(path + " is not a regular file");
}

}  // namespace gdf
