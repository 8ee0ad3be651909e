#include "gdfd/supervisor/spawn.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "core/base/file_system.h"
#include "core/train/protocol.h"

namespace gdf::supervisor {
namespace {

constexpr size_t kStackBytes = size_t{64} << 10;
constexpr int kFirstClosedFd = train::kWorkerSocketFd + 1;

// What the child is given, and what it leaves when it fails: it shares this process's memory until
// it runs the program.
struct Handover {
  const SpawnRequest& request;
  char* const* arguments;
  char* const* environment;
  const char* failed = "";
  int error = 0;
};

bool Step(Handover& handover, const char* what, bool worked) {
  if (worked) return true;
  handover.failed = what;
  handover.error = errno;
  return false;
}

void ResetSignals() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &standard, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Moved out of the way first: a daemon without standard descriptors may hold them at 0 to 3.
int MovedAway(int fd) { return fcntl(fd, F_DUPFD, kFirstClosedFd); }

bool PlaceDescriptors(const SpawnRequest& request) {
  const bool has_socket = request.socket >= 0;
  const int socket = has_socket ? MovedAway(request.socket) : -1;
  const int error_pipe = MovedAway(request.error_pipe);
  const int null = MovedAway(open("/dev/null", O_RDWR));
  const int output = request.output < 0 ? null : MovedAway(request.output);
  if (error_pipe < 0 || null < 0 || output < 0 || dup2(null, 0) < 0 || dup2(output, 1) < 0 ||
      dup2(error_pipe, 2) < 0) {
    return false;
  }
  if (has_socket && dup2(socket, train::kWorkerSocketFd) < 0) return false;
  closefrom(has_socket ? kFirstClosedFd : train::kWorkerSocketFd);
  return true;
}

bool ApplyLimits(const SpawnRequest& request) {
  for (const ResourceLimit& limit : request.limits) {
    const rlimit both{limit.value, limit.value};
    if (setrlimit(limit.resource, &both) != 0) return false;
  }
  return true;
}

// Runs in the child on a stack of its own, while the calling thread waits. Only system calls.
int RunChild(void* argument) {
  Handover& handover = *static_cast<Handover*>(argument);
  const SpawnRequest& request = handover.request;
  ResetSignals();
  if (Step(handover, "tie to this process", prctl(PR_SET_PDEATHSIG, SIGKILL) == 0) &&
      Step(handover, "start a session for", setsid() >= 0) &&
      Step(handover, "put into its control group",
           request.cgroup_procs < 0 || write(request.cgroup_procs, "0", 1) == 1) &&
      Step(handover, "hand descriptors to", PlaceDescriptors(request)) &&
      Step(handover, "limit the resources of", ApplyLimits(request))) {
    execve(request.program.c_str(), handover.arguments, handover.environment);
    Step(handover, "start", false);
  }
  _exit(1);
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

absl::StatusOr<Spawned> Spawn(const SpawnRequest& request) {
  std::vector<std::string> texts = request.arguments;
  texts.insert(texts.begin(), request.program);
  const std::vector<char*> arguments = Pointers(texts);
  const std::vector<char*> environment = Pointers(request.environment);
  Handover handover{request, arguments.data(), environment.data()};
  std::vector<max_align_t> stack(kStackBytes / sizeof(max_align_t));

  // A handler must not run in the child while it shares our memory.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int pid_fd = -1;
  const pid_t pid = clone(RunChild, stack.data() + stack.size(),
                          CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &handover, &pid_fd);
  const int clone_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return ErrnoToStatus(clone_error, "start", request.program);
  Spawned spawned{pid, train::UniqueFd(pid_fd)};
  if (handover.error == 0) return spawned;
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return ErrnoToStatus(handover.error, handover.failed, request.program);
}

siginfo_t WaitForExit(pid_t pid) {
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED) != 0 && errno == EINTR) {
  }
  return info;
}

}  // namespace gdf::supervisor
