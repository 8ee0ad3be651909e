#include "tests/integration/cluster/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <utility>

#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/base/file_system.h"

namespace gdf::cluster {
namespace {

int OpenPidFd(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

// The environment of this process without what would lead a program to another daemon.
std::vector<std::string> ChildEnvironment() {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (text.rfind("GDF_", 0) != 0 && text.rfind("XDG_RUNTIME_DIR=", 0) != 0) out.push_back(text);
  }
  return out;
}

std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

// After fork: only system calls.
[[noreturn]] void RunChild(const Process::Options& options, char* const* arguments,
                           char* const* environment, int output, int error, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  setsid();
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  dup2(options.output_to_error_file ? error : output, STDOUT_FILENO);
  dup2(error, STDERR_FILENO);
  if (options.ready_fd >= 0) dup2(options.ready_fd, Process::kReadyFd);
  if (options.ready_fd == Process::kReadyFd) fcntl(Process::kReadyFd, F_SETFD, 0);
  execve(arguments[0], arguments, environment);
  _exit(127);
}

}  // namespace

absl::Duration MonotonicNow() {
  static const SystemClock clock;
  return clock.Monotonic();
}

bool AwaitReadable(int fd, absl::Duration timeout) {
  const absl::Duration end = MonotonicNow() + timeout;
  while (true) {
    pollfd wanted{fd, POLLIN, 0};
    const int64_t left = std::max<int64_t>(0, absl::ToInt64Milliseconds(end - MonotonicNow()));
    const int ready = poll(&wanted, 1, static_cast<int>(std::min<int64_t>(left, 1 << 30)));
    if (ready > 0) return true;
    if (ready == 0) return false;
    GDF_CHECK(errno == EINTR);
  }
}

Process::Process(const Options& options) {
  int pipe_fds[2];
  GDF_CHECK(pipe2(pipe_fds, O_CLOEXEC) == 0);
  output_.Reset(pipe_fds[0]);
  const train::UniqueFd write_end(pipe_fds[1]);
  const train::UniqueFd error(
      open(options.error_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  GDF_CHECK(error.get() >= 0);
  const std::vector<char*> arguments = Pointers(options.arguments);
  std::vector<std::string> texts = ChildEnvironment();
  texts.insert(texts.end(), options.environment.begin(), options.environment.end());
  const std::vector<char*> environment = Pointers(texts);
  const pid_t parent = getpid();
  pid_ = fork();
  GDF_CHECK(pid_ >= 0);
  if (pid_ == 0)
    RunChild(options, arguments.data(), environment.data(), write_end.get(), error.get(), parent);
  pid_fd_.Reset(OpenPidFd(pid_));
  GDF_CHECK(pid_fd_.get() >= 0);
}

Process::~Process() {
  if (!running()) return;
  Signal(SIGKILL);
  Wait();
}

void Process::Signal(int signal) {
  syscall(SYS_pidfd_send_signal, pid_fd_.get(), signal, nullptr, 0);
}

std::optional<int> Process::Wait(absl::Duration timeout) {
  if (exit_code_) return exit_code_;
  if (!AwaitReadable(pid_fd_.get(), timeout)) return std::nullopt;
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED) != 0 && errno == EINTR) {
  }
  exit_code_ = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
  return exit_code_;
}

bool Process::FillBuffer(absl::Duration until) {
  if (at_end_ || !AwaitReadable(output_.get(), until - MonotonicNow())) return false;
  char bytes[65536];
  const ssize_t got = read(output_.get(), bytes, sizeof(bytes));
  if (got < 0 && errno == EINTR) return true;
  if (got <= 0) {
    at_end_ = true;
    return false;
  }
  buffer_.append(bytes, static_cast<size_t>(got));
  return true;
}

std::optional<std::string> Process::ReadLine(absl::Duration timeout) {
  const absl::Duration until = MonotonicNow() + timeout;
  size_t end = buffer_.find('\n');
  while (end == std::string::npos) {
    if (!FillBuffer(until)) return std::nullopt;
    end = buffer_.find('\n');
  }
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 1);
  return line;
}

std::string Process::ReadAll(absl::Duration timeout) {
  const absl::Duration until = MonotonicNow() + timeout;
  while (FillBuffer(until)) {
  }
  return std::exchange(buffer_, {});
}

std::vector<pid_t> ChildrenOf(pid_t pid) {
  // A thread's list holds what that thread has started; orphans are on the first thread's.
  std::vector<pid_t> out;
  PosixFileSystem files;
  const std::string tasks = "/proc/" + std::to_string(pid) + "/task";
  absl::StatusOr<std::vector<std::string>> threads = files.List(tasks);
  if (!threads.ok()) return out;
  for (const std::string& thread : *threads) {
    std::ifstream list(tasks + "/" + thread + "/children");
    pid_t child = 0;
    while (list >> child) out.push_back(child);
  }
  return out;
}

std::string NameOf(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

bool AwaitEnd(pid_t pid, absl::Duration timeout) {
  const train::UniqueFd fd(OpenPidFd(pid));
  if (fd.get() < 0) return true;  // it is gone
  if (!AwaitReadable(fd.get(), timeout)) return false;
  waitpid(pid, nullptr, WNOHANG);
  return true;
}

}  // namespace gdf::cluster
