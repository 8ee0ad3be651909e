#include "gdfd/supervisor/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
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

namespace gdf::supervisor {
namespace {

constexpr int kMaxThreads = 1024;  // CUDA alone starts dozens; a fork bomb of threads stops here
// A batch of inputs is kMaxMessageFds; a GPU has some dozens of its own.
constexpr rlim_t kMaxOpenFiles = 512;

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// The attributes and file actions of posix_spawn, freed together.
struct SpawnPlan {
  SpawnPlan() {
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&actions);
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    // A session of its own: a terminal's Ctrl-C reaches the daemon, which ends the worker.
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  }
  ~SpawnPlan() {
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
  }
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
};

absl::Status SetLimit(pid_t pid, __rlimit_resource resource, rlim_t value) {
  const rlimit limit{value, value};
  if (prlimit(pid, resource, &limit, nullptr) != 0) {
    return ErrnoToStatus(errno, "limit the resources of", absl::StrCat("process ", pid));
  }
  return absl::OkStatus();
}

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
  GDF_RETURN_IF_ERROR(child->Spawn(options, sockets.second.get(), error_pipe.get()));
  GDF_RETURN_IF_ERROR(child->Limit(options));
  return child;
}

absl::Status ChildProcess::Spawn(const ChildOptions& options, int socket, int error_pipe) {
  SpawnPlan plan;
  posix_spawn_file_actions_addopen(&plan.actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&plan.actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&plan.actions, error_pipe, 2);
  posix_spawn_file_actions_adddup2(&plan.actions, socket, train::kWorkerSocketFd);
  posix_spawn_file_actions_addclosefrom_np(&plan.actions, train::kWorkerSocketFd + 1);
  std::vector<std::string> arguments = options.arguments;
  arguments.insert(arguments.begin(), options.program);
  const int error = posix_spawn(&pid_, options.program.c_str(), &plan.actions, &plan.attributes,
                                Pointers(arguments).data(), Pointers(options.environment).data());
  if (error != 0) {
    pid_ = -1;
    return ErrnoToStatus(error, "start", options.program);
  }
  // The child cannot be reaped by anyone else, so the number still means it.
  pid_fd_.Reset(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  if (!pid_fd_.valid()) return ErrnoToStatus(errno, "watch", options.program);
  return absl::OkStatus();
}

absl::Status ChildProcess::Limit(const ChildOptions& options) {
  memory_bytes_ = options.memory_bytes;
  GDF_RETURN_IF_ERROR(SetLimit(pid_, RLIMIT_CORE, 0));
  GDF_RETURN_IF_ERROR(SetLimit(pid_, RLIMIT_NOFILE, kMaxOpenFiles));
  // Counted per user: of use where the worker gets a user of its own.
  if (geteuid() == 0) GDF_RETURN_IF_ERROR(SetLimit(pid_, RLIMIT_NPROC, kMaxThreads));
  if (!options.cgroup_parent.empty()) {
    GDF_ASSIGN_OR_RETURN(Cgroup group,
                         Cgroup::Create(options.cgroup_parent, absl::StrCat("worker-", pid_),
                                        options.memory_bytes, kMaxThreads));
    GDF_RETURN_IF_ERROR(group.Add(pid_));
    cgroup_.emplace(std::move(group));
    memory_limit_ = "memory limit by control group";
    return absl::OkStatus();
  }
  if (options.memory_bytes == 0) {
    memory_limit_ = "no memory limit";
    return absl::OkStatus();
  }
  memory_limit_ = "memory limit by RLIMIT_DATA";
  return SetLimit(pid_, RLIMIT_DATA, options.memory_bytes);
}

ChildProcess::~ChildProcess() {
  if (pid_ < 0 || reaped_) return;
  Kill();
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) != 0 && errno == EINTR) {
  }
}

void ChildProcess::Kill() {
  if (pid_fd_.valid()) {
    syscall(SYS_pidfd_send_signal, pid_fd_.get(), SIGKILL, nullptr, 0);
  } else if (pid_ > 0 && !reaped_) {
    kill(pid_, SIGKILL);
  }
}

train::ExitInfo ChildProcess::Reap() {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) != 0 && errno == EINTR) {
  }
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
  const std::string limit = memory_bytes > 0
                                ? absl::StrCat(" limit of ", HumanBytes(memory_bytes), " reached")
                                : " ran out";
  if (how == CLD_EXITED) {
    if (status == train::kExitOutOfMemory) {
      return {Reason::kOutOfMemory, status, 0, absl::StrCat("the worker's memory", limit)};
    }
    return {Reason::kExited, status, 0, absl::StrCat("the worker exited with status ", status)};
  }
  train::ExitInfo info{Reason::kCrashed, 0, status,
                       absl::StrCat("the worker was killed by ", SignalName(status))};
  if (out_of_memory) {
    info.reason = Reason::kOutOfMemory;
    absl::StrAppend(&info.text, ": memory", limit);
  } else if (status == SIGKILL) {
    absl::StrAppend(&info.text, ", perhaps by the system for lack of memory");
  }
  return info;
}

}  // namespace gdf::supervisor
