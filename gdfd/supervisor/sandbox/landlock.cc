#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "core/base/status_macros.h"
#include "gdfd/supervisor/sandbox/layers.h"

// The kernel's interface, documented in userspace-api/landlock.rst; the system's header may be
// older than the running kernel, so what is used of it is written down here.
namespace gdf::supervisor {
namespace {

constexpr long kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;
constexpr unsigned kVersionFlag = 1;
constexpr int kPathBeneath = 1;

struct RulesetAttr {
  uint64_t handled_access_fs;
  uint64_t handled_access_net;
  uint64_t scoped;
};
struct __attribute__((packed)) PathBeneathAttr {
  uint64_t allowed_access;
  int32_t parent_fd;
};

constexpr uint64_t kExecute = 1 << 0, kWriteFile = 1 << 1, kReadFile = 1 << 2, kReadDir = 1 << 3,
                   kIoctlDevice = 1 << 15;
constexpr uint64_t kFsV1 = (1 << 13) - 1;
constexpr uint64_t kRefer = 1 << 13, kTruncate = 1 << 14;  // versions 2 and 3
constexpr uint64_t kBindAndConnectTcp = 3;                 // version 4
constexpr uint64_t kAbstractSocketsAndSignals = 3;         // version 6

RulesetAttr Everything(long version) {
  RulesetAttr attr{kFsV1, 0, 0};
  if (version >= 2) attr.handled_access_fs |= kRefer;
  if (version >= 3) attr.handled_access_fs |= kTruncate;
  if (version >= 4) attr.handled_access_net = kBindAndConnectTcp;
  if (version >= 5) attr.handled_access_fs |= kIoctlDevice;
  if (version >= 6) attr.scoped = kAbstractSocketsAndSignals;
  return attr;
}

absl::Status Allow(int ruleset, const std::string& path, uint64_t access) {
  const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
  if (fd < 0) return absl::OkStatus();  // what is not there needs no rule
  struct stat info {};
  if (fstat(fd, &info) == 0 && !S_ISDIR(info.st_mode)) access &= ~kReadDir;
  const PathBeneathAttr rule{access, fd};
  const long result = syscall(kAddRule, ruleset, kPathBeneath, &rule, 0);
  const absl::Status status = result == 0 ? absl::OkStatus() : ErrnoStatus(path);
  close(fd);
  return status;
}

absl::Status Restrict(int ruleset, uint64_t handled, const std::vector<std::string>& readable,
                      const std::vector<std::string>& devices) {
  for (const std::string& path : readable) {
    GDF_RETURN_IF_ERROR(Allow(ruleset, path, (kReadFile | kReadDir | kExecute) & handled));
  }
  for (const std::string& path : devices) {
    const uint64_t access = kReadFile | kWriteFile | kReadDir | kIoctlDevice;
    GDF_RETURN_IF_ERROR(Allow(ruleset, path, access & handled));
  }
  if (syscall(kRestrictSelf, ruleset, 0) != 0) return ErrnoStatus("landlock_restrict_self");
  return absl::OkStatus();
}

}  // namespace

absl::Status EnterLandlock(const std::vector<std::string>& readable, const std::vector<std::string>& devices, bool tcp) {
  const long version = syscall(kCreateRuleset, nullptr, 0, kVersionFlag);
  if (version < 1) return ErrnoStatus("not supported by this kernel");
  RulesetAttr attr = Everything(version);
  if (tcp) attr.handled_access_net = 0;
  // Kernels before version 4 know the first field only, and refuse longer structures unless the
  // rest is zero, which it then is.
  const int ruleset = static_cast<int>(syscall(kCreateRuleset, &attr, sizeof(attr), 0));
  if (ruleset < 0) return ErrnoStatus("landlock_create_ruleset");
  const absl::Status status = Restrict(ruleset, attr.handled_access_fs, readable, devices);
  close(ruleset);
  return status;
}

}  // namespace gdf::supervisor
