// The single walls of the sandbox, in the order in which sandbox.cc puts them up. Each gives OK or
// the reason why the kernel did not permit it.
#ifndef GDF_GDFD_SUPERVISOR_SANDBOX_LAYERS_H_
#define GDF_GDFD_SUPERVISOR_SANDBOX_LAYERS_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace gdf::supervisor {

// `what` failed with errno: kPermissionDenied "what: message".
absl::Status ErrnoStatus(std::string_view what);

// This process is killed when its parent ends. kFailedPrecondition when that is not `parent` any
// more. Lost by every change of user, so it is called again after one.
absl::Status DieWithParent(int parent);
absl::Status RequireOneThread();
absl::Status PreferInOutOfMemory();  // the kernel takes the worker before anything else

// Network, IPC and mount namespaces of its own, inside a new user namespace unless root. The
// network namespace has nothing in it, not even loopback that is up.
absl::Status EnterNamespaces();
// The loopback of the network namespace, for processes in it alone. Needs EnterNamespaces.
absl::Status RaiseLoopback();
// An empty, read-only file system as the root. Needs EnterNamespaces.
absl::Status EnterEmptyRoot();

// Root becomes a user that owns nothing and runs nothing else.
absl::Status DropUser();
// Every capability, for good.
absl::Status DropCapabilities();
absl::Status SetNoNewPrivileges();

// No file can be opened but `readable` ones (for reading) and `devices` (also for writing); no TCP port unless `tcp`,
// no signal or abstract socket outside, as far as this kernel's Landlock goes.
absl::Status EnterLandlock(const std::vector<std::string>& readable, const std::vector<std::string>& devices, bool tcp);

// Only the system calls on a list. Needs SetNoNewPrivileges.
absl::Status EnterSeccomp(bool gpu);

}  // namespace gdf::supervisor

#endif  // GDF_GDFD_SUPERVISOR_SANDBOX_LAYERS_H_
