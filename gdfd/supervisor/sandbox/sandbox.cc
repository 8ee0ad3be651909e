#include "gdfd/supervisor/sandbox/sandbox.h"

#include <glob.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "gdfd/supervisor/sandbox/layers.h"

namespace gdf::supervisor {
namespace {

// What the machine's owner can do about a wall that is missing.
constexpr std::string_view kAllowNamespaces =
    "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, and user.max_user_namespaces "
    "above 0; in a container by its settings), or run gdfd as root";
constexpr std::string_view kAllowLandlock =
    "boot a kernel of 5.13 or newer with landlock in its lsm= list, or allow it in the container";
constexpr std::string_view kReport = "gdfd's log has more; where nothing explains it, report it";

void Note(std::string_view wall, const absl::Status& status, std::string_view remedy,
          SandboxReport* report) {
  if (status.ok()) {
    report->in_force.emplace_back(wall);
  } else {
    report->missing.push_back(
        absl::StrCat(ToAbsl(wall), ": ", status.message(), "; ", ToAbsl(remedy)));
  }
}

std::vector<std::string> Glob(const char* pattern) {
  std::vector<std::string> paths;
  glob_t found{};
  if (glob(pattern, 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return paths;
}

// What the CUDA driver opens after the start: its libraries, its devices, the machine's topology.
std::vector<std::string> GpuReadable(const SandboxOptions& options) {
  std::vector<std::string> paths = options.library_folders;
  for (const char* path : {"/usr/lib", "/usr/lib64", "/usr/local", "/usr/share", "/lib", "/lib64",
                           "/opt", "/etc", "/proc", "/sys/devices", "/sys/bus", "/sys/module"}) {
    paths.emplace_back(path);
  }
  return paths;
}

std::vector<std::string> GpuDevices() {
  std::vector<std::string> paths = Glob("/dev/nvidia*");
  paths.insert(paths.end(), {"/dev/null", "/dev/zero", "/dev/urandom"});
  return paths;
}

}  // namespace

absl::StatusOr<SandboxReport> EnterSandbox(const SandboxOptions& options) {
  SandboxReport report;
  GDF_RETURN_IF_ERROR(DieWithParent(options.parent));
  GDF_RETURN_IF_ERROR(RequireOneThread());
  Note("first to go when memory runs out", PreferInOutOfMemory(), kReport, &report);
  const bool gpu = options.gpus > 0;
  const absl::Status namespaces = EnterNamespaces();
  Note("own network, IPC and mount namespaces", namespaces, kAllowNamespaces, &report);
  const bool loopback = options.gpus > 1 && namespaces.ok() && RaiseLoopback().ok();
  if (!gpu) {
    Note("empty root folder", namespaces.ok() ? EnterEmptyRoot() : namespaces, kAllowNamespaces, &report);
  }
  if (geteuid() == 0) Note("user of its own", DropUser(), kReport, &report);
  GDF_RETURN_IF_ERROR(DieWithParent(options.parent));
  Note("no capabilities", DropCapabilities(), kReport, &report);
  GDF_RETURN_IF_ERROR(MakeUndumpable());
  GDF_RETURN_IF_ERROR(SetNoNewPrivileges());
  report.in_force.emplace_back("no new privileges");
  using Paths = std::vector<std::string>;
  Note("no file access (Landlock)",
       EnterLandlock(gpu ? GpuReadable(options) : Paths{}, gpu ? GpuDevices() : Paths{}, /*tcp=*/loopback),
       kAllowLandlock, &report);
  GDF_RETURN_IF_ERROR(EnterSeccomp(gpu));
  report.in_force.emplace_back("system-call filter");
  return report;
}

absl::Status MakeUndumpable() {
  if (prctl(PR_SET_DUMPABLE, 0) != 0) return ErrnoStatus("prctl(PR_SET_DUMPABLE)");
  return absl::OkStatus();
}

}  // namespace gdf::supervisor
