#include "gdfd/supervisor/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/file_system.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/train/message_socket.h"
#include "core/train/protocol.h"
#include "gdfd/supervisor/spawn.h"

namespace gdf::supervisor {
namespace {

constexpr int kMaxThreads = 1024;  // CUDA alone starts dozens; a fork bomb of threads stops here
// A batch of inputs is kMaxMessageFds; a GPU has some dozens of its own.
constexpr rlim_t kMaxOpenFiles = 512;

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? absl::StrCat("SIG", name) : absl::StrCat("signal ", signal);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(const ChildOptions& options) {
  auto child = std::unique_ptr<ChildProcess>(new ChildProcess());
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) return ErrnoToStatus(errno, "make a pipe for", "a worker");
  child->stderr_.Reset(pipe_fds[0]);
  const train::UniqueFd error_pipe(pipe_fds[1]);
  GDF_ASSIGN_OR_RETURN(auto sockets, train::MakeSocketPair());
  child->socket_ = std::move(sockets.first);
  SpawnRequest request;
  request.program = options.program;
  request.arguments = options.arguments;
  request.environment = options.environment;
  request.socket = sockets.second.get();
  request.error_pipe = error_pipe.get();
  train::UniqueFd cgroup_procs;
  GDF_RETURN_IF_ERROR(child->PlanLimits(options, request, cgroup_procs));
  GDF_ASSIGN_OR_RETURN(Spawned spawned, Spawn(request));
  child->pid_ = spawned.pid;
  child->pid_fd_ = std::move(spawned.pid_fd);
  return child;
}

absl::Status ChildProcess::PlanLimits(const ChildOptions& options, SpawnRequest& request,
                                      train::UniqueFd& cgroup_procs) {
  memory_bytes_ = options.memory_bytes;
  request.limits = {{RLIMIT_CORE, 0}, {RLIMIT_NOFILE, kMaxOpenFiles}};
  // Counted per user: of use where the worker gets a user of its own.
  if (geteuid() == 0) request.limits.push_back({RLIMIT_NPROC, kMaxThreads});
  if (!options.cgroup_parent.empty()) {
    GDF_ASSIGN_OR_RETURN(
        cgroup_, Cgroup::Create(options.cgroup_parent, options.memory_bytes, kMaxThreads));
    GDF_ASSIGN_OR_RETURN(cgroup_procs, cgroup_->OpenProcs());
    request.cgroup_procs = cgroup_procs.get();
    memory_limit_ = "memory limit by control group";
  } else if (options.memory_bytes > 0) {
    request.limits.push_back({RLIMIT_DATA, options.memory_bytes});
    memory_limit_ =
        "memory limit by control group (RLIMIT_DATA is used instead); start gdfd by its systemd unit, which has "
        "Delegate=yes";
  } else {
    memory_limit_ = "memory limit: set limits.memory in gdfd.yaml, or start gdfd by its systemd unit";
  }
  return absl::OkStatus();
}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || reaped_) return;
  Kill();
  WaitForExit(pid_);
}

void ChildProcess::Kill() {
  syscall(SYS_pidfd_send_signal, pid_fd_.get(), SIGKILL, nullptr, 0);
}

train::ExitInfo ChildProcess::Reap() {
  const siginfo_t info = WaitForExit(pid_);
  reaped_ = true;
  const bool out_of_memory = cgroup_ && cgroup_->RanOutOfMemory();
  cgroup_.reset();
  return DescribeExit(info.si_code, info.si_status, out_of_memory, memory_bytes_);
}

absl::Status ChildProcess::CheckConfined() const {
  const std::string path = absl::StrCat("/proc/", pid_, "/status");
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoToStatus(errno, "open", path);
  std::string text(8192, '\0');
  const ssize_t got = read(fd, text.data(), text.size());
  close(fd);
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  if (absl::StrContains(text, "\nNoNewPrivs:\t1\n") && absl::StrContains(text, "\nSeccomp:\t2\n")) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      "the worker has not closed its sandbox: no system-call filter is in force");
}

train::ExitInfo DescribeExit(int how, int status, bool out_of_memory, uint64_t memory_bytes) {
  using Reason = train::ExitInfo::Reason;
  const std::string ran_out =
      memory_bytes > 0 ? absl::StrCat("ran out of memory: its limit of ", HumanBytes(memory_bytes),
                                      " is reached")
                       : "ran out of memory";
  if (how == CLD_EXITED) {
    if (status == train::kExitOutOfMemory) {
      return {Reason::kOutOfMemory, status, 0, absl::StrCat("the worker ", ran_out)};
    }
    return {Reason::kExited, status, 0, absl::StrCat("the worker exited with status ", status)};
  }
  train::ExitInfo info{Reason::kCrashed, 0, status,
                       absl::StrCat("the worker was killed by ", SignalName(status))};
  if (out_of_memory) {
    info.reason = Reason::kOutOfMemory;
    absl::StrAppend(&info.text, ": it ", ran_out);
  } else if (status == SIGKILL) {
    absl::StrAppend(&info.text, ", perhaps by the system for lack of memory");
  }
  return info;
}

}  // namespace gdf::supervisor
