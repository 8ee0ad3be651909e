#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "gdfd/supervisor/sandbox/layers.h"

namespace gdf::supervisor {
namespace {

constexpr int kNamespaces = CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWNS;
// Any folder will do; the empty root is laid over it in the worker's own mount namespace.
constexpr char kMountPoint[] = "/tmp";

absl::Status WriteFile(const char* path, std::string_view text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(absl::StrCat("open ", path));
  const ssize_t wrote = write(fd, text.data(), text.size());
  const absl::Status status =
      wrote == static_cast<ssize_t>(text.size()) ? absl::OkStatus() : ErrnoStatus(path);
  close(fd);
  return status;
}

}  // namespace

absl::Status EnterNamespaces() {
  const uid_t user = geteuid();
  const gid_t group = getegid();
  if (user == 0) {
    if (unshare(kNamespaces) != 0) return ErrnoStatus("unshare");
  } else {
    if (unshare(CLONE_NEWUSER | kNamespaces) != 0) {
      return ErrnoStatus("unshare (are unprivileged user namespaces enabled?)");
    }
    GDF_RETURN_IF_ERROR(WriteFile("/proc/self/setgroups", "deny"));
    GDF_RETURN_IF_ERROR(WriteFile("/proc/self/uid_map", absl::StrCat(user, " ", user, " 1")));
    GDF_RETURN_IF_ERROR(WriteFile("/proc/self/gid_map", absl::StrCat(group, " ", group, " 1")));
  }
  if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return ErrnoStatus("make mounts private");
  }
  return absl::OkStatus();
}

absl::Status RaiseLoopback() {
  const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return ErrnoStatus("socket");
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP;
  const absl::Status status = ioctl(fd, SIOCSIFFLAGS, &request) == 0 ? absl::OkStatus() : ErrnoStatus("raise lo");
  close(fd);
  return status;
}

absl::Status EnterEmptyRoot() {
  constexpr unsigned long kFlags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
  if (mount("none", kMountPoint, "tmpfs", kFlags, "size=4096,nr_inodes=2,mode=0555") != 0) {
    return ErrnoStatus("mount an empty folder");
  }
  if (chdir(kMountPoint) != 0) return ErrnoStatus("chdir");
  // pivot_root(2): with both arguments ".", the old root ends up on top of the new and is let go.
  if (syscall(SYS_pivot_root, ".", ".") != 0) return ErrnoStatus("pivot_root");
  if (umount2(".", MNT_DETACH) != 0) return ErrnoStatus("unmount the old root");
  if (chdir("/") != 0) return ErrnoStatus("chdir");
  if (mount(nullptr, "/", nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | kFlags, nullptr) != 0) {
    return ErrnoStatus("make the root read-only");
  }
  return absl::OkStatus();
}

}  // namespace gdf::supervisor
