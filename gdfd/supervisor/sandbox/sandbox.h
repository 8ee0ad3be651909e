// The walls around a worker (docs/adr/0003-worker-sandbox.md). The worker's main() calls
// EnterSandbox first of all, with its libraries loaded and nothing of any job read; the daemon
// sends it nothing before it has seen, in /proc, that the system-call filter is in force.
#ifndef GDF_GDFD_SUPERVISOR_SANDBOX_SANDBOX_H_
#define GDF_GDFD_SUPERVISOR_SANDBOX_SANDBOX_H_

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gdf::supervisor {

struct SandboxOptions {
  pid_t parent = 0;  // the daemon, with which this process dies
  // That it computes on. One or more: /dev/nvidia*, the driver's files and the system's libraries stay readable, and
  // the system calls that CUDA makes are permitted. Several: its own network namespace has a loopback, by which NCCL
  // starts.
  size_t gpus = 0;
  // Folders that stay readable, since libraries there open more of them later; with `gpus` only.
  std::vector<std::string> library_folders;
};

// What surrounds a worker, in words for `status`.
struct SandboxReport {
  std::vector<std::string> in_force;  // "own network namespace", ...
  // "no file access (Landlock): not supported ...; boot a kernel ...": each with what helps; status warns
  std::vector<std::string> missing;
};

// Irrevocably confines the calling process, which must have one thread. kFailedPrecondition when it
// has more or its parent is gone; kPermissionDenied when the kernel refuses what no worker may run
// without: no new privileges and the system-call filter. Whatever else it refuses is in `missing`.
absl::StatusOr<SandboxReport> EnterSandbox(const SandboxOptions& options);

// Keeps other processes of the same user from reading this one's memory or tracing it. The daemon's
// main() calls it, since it holds keys and θ.
absl::Status MakeUndumpable();

}  // namespace gdf::supervisor

#endif  // GDF_GDFD_SUPERVISOR_SANDBOX_SANDBOX_H_
