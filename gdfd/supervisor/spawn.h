// Starts a program with its resource limits and control group in force before its first
// instruction: set from outside afterwards, they would race with a program that changes its user,
// after which the kernel no longer lets this process limit it.
#ifndef GDF_GDFD_SUPERVISOR_SPAWN_H_
#define GDF_GDFD_SUPERVISOR_SPAWN_H_

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/train/unique_fd.h"

namespace gdf::supervisor {

struct ResourceLimit {
  __rlimit_resource resource;
  rlim_t value;  // soft and hard
};

struct SpawnRequest {
  std::string program;
  std::vector<std::string> arguments;    // after the program's name
  std::vector<std::string> environment;  // all of it: "NAME=value"
  int socket = -1;        // becomes descriptor kWorkerSocketFd, or -1
  int output = -1;        // becomes standard output; -1: /dev/null
  int error_pipe = -1;    // becomes standard error
  int cgroup_procs = -1;  // an open cgroup.procs to join, or -1
  std::vector<ResourceLimit> limits;
};

struct Spawned {
  pid_t pid = -1;
  train::UniqueFd pid_fd;
};

// The child has a session of its own (a terminal's Ctrl-C reaches the daemon, which ends the
// worker), no signal blocked or handled, standard input at /dev/null, and no descriptor but those of
// the request. It is killed when the calling thread ends. Returns once the program runs; an error
// names the program and what failed, and leaves no process behind.
absl::StatusOr<Spawned> Spawn(const SpawnRequest& request);

// Waits until a child has ended, and reaps it: how it ended, as waitid tells.
siginfo_t WaitForExit(pid_t pid);

}  // namespace gdf::supervisor

#endif  // GDF_GDFD_SUPERVISOR_SPAWN_H_
