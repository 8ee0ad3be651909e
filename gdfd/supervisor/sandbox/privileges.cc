#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "gdfd/supervisor/sandbox/layers.h"

namespace gdf::supervisor {
namespace {

// systemd's list of user ids (UIDS-GIDS.md) leaves 1879048192 to 2147483647 to nobody. One id a
// worker, so that workers cannot signal each other.
constexpr uid_t kFirstWorkerUser = 1'900'000'000;
constexpr uid_t kNobody = 65534;
constexpr char kOutOfMemoryScore[] = "800";  // of -1000 to 1000

absl::Status SetUser(uid_t user) {
  if (setresgid(user, user, user) != 0) return ErrnoStatus("setresgid");
  if (setresuid(user, user, user) != 0) return ErrnoStatus("setresuid");
  return absl::OkStatus();
}

}  // namespace

absl::Status ErrnoStatus(std::string_view what) {
  return absl::PermissionDeniedError(absl::StrCat(ToAbsl(what), ": ", std::strerror(errno)));
}

absl::Status DieWithParent(int parent) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return ErrnoStatus("prctl(PR_SET_PDEATHSIG)");
  if (getppid() != parent) {
    return absl::FailedPreconditionError(absl::StrCat("the parent is process ", getppid(),
                                                      ", expected ", parent,
                                                      "; gdf-worker is started by gdfd only"));
  }
  return absl::OkStatus();
}

absl::Status RequireOneThread() {
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return ErrnoStatus("open /proc/self/task");
  int count = 0;
  while (const dirent* entry = readdir(tasks)) count += entry->d_name[0] != '.';
  closedir(tasks);
  if (count == 1) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the process has ", count, " threads, expected one before the sandbox"));
}

absl::Status PreferInOutOfMemory() {
  const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus("open /proc/self/oom_score_adj");
  const ssize_t wrote = write(fd, kOutOfMemoryScore, sizeof(kOutOfMemoryScore) - 1);
  const absl::Status status = wrote > 0 ? absl::OkStatus() : ErrnoStatus("write oom_score_adj");
  close(fd);
  return status;
}

absl::Status DropUser() {
  if (setgroups(0, nullptr) != 0) return ErrnoStatus("setgroups");
  // In a container that has few user ids the first does not exist.
  if (SetUser(kFirstWorkerUser + static_cast<uid_t>(getpid())).ok()) return absl::OkStatus();
  return SetUser(kNobody);
}

absl::Status DropCapabilities() {
  for (int cap = 0; cap <= 63; ++cap) {
    // Only with CAP_SETPCAP; without it no_new_privs keeps the bounding set out of reach.
    if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) != 0) break;
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  if (syscall(SYS_capset, &header, none) != 0) return ErrnoStatus("capset");
  return absl::OkStatus();
}

absl::Status SetNoNewPrivileges() {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return ErrnoStatus("prctl(PR_SET_NO_NEW_PRIVS)");
  return absl::OkStatus();
}

}  // namespace gdf::supervisor
