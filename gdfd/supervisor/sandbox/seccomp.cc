#include <linux/sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <memory>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "gdfd/supervisor/sandbox/layers.h"

namespace gdf::supervisor {
namespace {

// What libtorch, glibc and the session need once everything is loaded. Not on it, and so refused
// with EPERM: execve, fork, ptrace, process_vm_*, socket and connect, mount, setns, unshare, bpf,
// io_uring_*, perf_event_open, userfaultfd, keyctl, open_by_handle_at, kexec_*, pidfd_* and all the
// rest. openat is on it: Landlock and the empty root decide what there is to open.
constexpr const char* kAllowed[] = {
    // Files and messages.
    "read", "write", "readv", "writev", "pread64", "pwrite64", "lseek", "close", "fstat", "stat",
    "lstat", "newfstatat", "statx", "fcntl", "dup", "dup2", "dup3", "poll", "ppoll", "select",
    "pselect6", "recvmsg", "sendmsg", "recvfrom", "sendto", "openat", "open", "access", "faccessat",
    "readlink", "readlinkat", "getcwd", "getdents64", "ftruncate", "fallocate", "memfd_create",
    "fstatfs", "statfs",
    // Memory.
    "mmap", "munmap", "mprotect", "mremap", "madvise", "brk", "mlock", "munlock", "mincore",
    "msync", "membarrier", "get_mempolicy", "set_mempolicy", "mbind",
    // Threads.
    "futex", "set_robust_list", "get_robust_list", "rseq", "exit", "exit_group", "sched_yield",
    "sched_getaffinity", "sched_getparam", "sched_getscheduler", "sched_get_priority_max",
    "sched_get_priority_min", "getcpu", "set_tid_address", "arch_prctl", "gettid",
    // Signals to itself, time, facts.
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "sigaltstack",
    "restart_syscall", "nanosleep", "clock_nanosleep", "clock_gettime", "clock_getres",
    "gettimeofday", "time", "times", "getpid", "getppid", "getuid", "geteuid", "getgid", "getegid",
    "getresuid", "getresgid", "getgroups", "uname", "sysinfo", "getrandom", "getrusage",
    "getrlimit"};

// What the CUDA driver and NCCL need beside that. Sockets reach nothing but this process: the network namespace is
// empty but for a loopback at most, and without one Landlock closes TCP too; abstract names it closes always.
constexpr const char* kAllowedForGpu[] = {
    "ioctl",          "eventfd2",   "epoll_create1", "epoll_ctl",   "epoll_wait",
    "epoll_pwait",    "pipe",       "pipe2",         "flock",       "sched_setaffinity",
    "mlock2",         "socketpair", "socket",        "bind",        "listen",
    "connect",        "accept",     "accept4",       "getsockname", "getpeername",
    "getsockopt",     "setsockopt", "shutdown",      "unlink",      "unlinkat",
    "mkdir",          "fadvise64",  "getdents",      "prctl",       "timerfd_create",
    "timerfd_settime"};

// Callers fall back to an older call when these do not exist.
constexpr const char* kUnknown[] = {"clone3", "faccessat2", "openat2"};

class Filter {
 public:
  Filter() : context_(seccomp_init(SCMP_ACT_ERRNO(EPERM)), &seccomp_release) {}

  // Names that this processor does not have are passed over.
  void Add(uint32_t action, const char* name, std::initializer_list<scmp_arg_cmp> conditions = {}) {
    const int call = seccomp_syscall_resolve_name(name);
    if (call == __NR_SCMP_ERROR || context_ == nullptr || error_ != 0) return;
    error_ = seccomp_rule_add_array(context_.get(), action, call,
                                    static_cast<unsigned>(conditions.size()), conditions.begin());
    if (error_ != 0) failed_ = name;
  }
  void Allow(const char* name, std::initializer_list<scmp_arg_cmp> conditions = {}) {
    Add(SCMP_ACT_ALLOW, name, conditions);
  }

  absl::Status Load() {
    if (context_ == nullptr) return absl::PermissionDeniedError("seccomp_init failed");
    if (error_ == 0) {
      failed_ = "load";
      error_ = seccomp_load(context_.get());
    }
    if (error_ == 0) return absl::OkStatus();
    return absl::PermissionDeniedError(
        absl::StrCat("system-call filter (", failed_, "): ", std::strerror(-error_)));
  }

 private:
  std::unique_ptr<void, void (*)(scmp_filter_ctx)> context_;
  int error_ = 0;
  const char* failed_ = "";
};

void AllowThreadsOnly(Filter& filter) {
  constexpr scmp_datum_t kThread = CLONE_VM | CLONE_THREAD;
  constexpr scmp_datum_t kNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                       CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
  filter.Allow("clone", {SCMP_A0(SCMP_CMP_MASKED_EQ, kThread | kNamespaces, kThread)});
}

void AllowOnItself(Filter& filter) {
  const auto self = static_cast<scmp_datum_t>(getpid());
  for (const char* name : {"kill", "tgkill"}) filter.Allow(name, {SCMP_A0(SCMP_CMP_EQ, self, 0)});
  filter.Allow("prlimit64", {SCMP_A0(SCMP_CMP_EQ, 0, 0)});
  for (const int option : {PR_SET_NAME, PR_GET_NAME, PR_SET_VMA}) {
    filter.Allow("prctl", {SCMP_A0(SCMP_CMP_EQ, static_cast<scmp_datum_t>(option), 0)});
  }
}

}  // namespace

absl::Status EnterSeccomp(bool gpu) {
  Filter filter;
  for (const char* name : kAllowed) filter.Allow(name);
  AllowThreadsOnly(filter);
  AllowOnItself(filter);
  if (gpu) {
    for (const char* name : kAllowedForGpu) filter.Allow(name);
  }
  for (const char* name : kUnknown) filter.Add(SCMP_ACT_ERRNO(ENOSYS), name);
  return filter.Load();
}

}  // namespace gdf::supervisor
