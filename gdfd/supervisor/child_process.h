// A child process that this one starts, limits, watches by pidfd and never outlives.
#ifndef GDF_GDFD_SUPERVISOR_CHILD_PROCESS_H_
#define GDF_GDFD_SUPERVISOR_CHILD_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/train/unique_fd.h"
#include "core/train/worker_session.h"
#include "gdfd/supervisor/cgroup.h"

namespace gdf::supervisor {

struct SpawnRequest;

struct ChildOptions {
  std::string program;
  std::vector<std::string> arguments;    // after the program's name
  std::vector<std::string> environment;  // all of it: "NAME=value"
  uint64_t memory_bytes = 0;             // 0: no limit
  std::string cgroup_parent;             // of DelegatedCgroup, or empty: RLIMIT_DATA bounds memory
};

// Constant after Start, except for the child's end. Start, Kill and the destructor on one thread,
// which must live as long as the child: the kernel ends a child with the thread that made it.
class ChildProcess {
 public:
  // Starts the program with standard input and output at /dev/null, standard error in stderr_fd()
  // and one end of a socket pair as descriptor kWorkerSocketFd; nothing else is inherited.
  // kNotFound and the like name the program.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(const ChildOptions& options);

  ~ChildProcess();  // kills and reaps

  pid_t pid() const { return pid_; }
  int pid_fd() const { return pid_fd_.get(); }  // readable when the child has ended
  int socket_fd() const { return socket_.get(); }
  int stderr_fd() const { return stderr_.get(); }
  uint64_t memory_bytes() const { return memory_bytes_; }  // its limit; 0: none
  // How memory is bounded, or what bounds it for want of a control group.
  const std::string& memory_limit() const { return memory_limit_; }
  bool has_cgroup() const { return cgroup_.has_value(); }

  // SIGKILL. Idempotent.
  void Kill();

  // Collects the status of a child that has ended (pid_fd is readable); any thread, once.
  train::ExitInfo Reap();

  // What /proc says: no new privileges and a system-call filter are in force.
  // kFailedPrecondition otherwise.
  absl::Status CheckConfined() const;

 private:
  ChildProcess() = default;
  absl::Status PlanLimits(const ChildOptions& options, SpawnRequest& request,
                          train::UniqueFd& cgroup_procs);

  pid_t pid_ = -1;
  bool reaped_ = false;
  uint64_t memory_bytes_ = 0;
  std::string memory_limit_;
  train::UniqueFd pid_fd_;
  train::UniqueFd socket_;
  train::UniqueFd stderr_;
  std::optional<Cgroup> cgroup_;
};

// Why a process ended, out of waitid's si_code (`how`) and si_status (`status`).
train::ExitInfo DescribeExit(int how, int status, bool out_of_memory, uint64_t memory_bytes);

}  // namespace gdf::supervisor

#endif  // GDF_GDFD_SUPERVISOR_CHILD_PROCESS_H_
