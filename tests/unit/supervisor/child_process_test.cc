#include "gdfd/supervisor/child_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <string>

#include "absl/strings/match.h"
#include "core/base/file_system.h"
#include "core/train/protocol.h"
#include "gdfd/supervisor/spawn.h"
#include "tests/support/temporary_folder.h"

namespace gdf::supervisor {
namespace {

using Reason = train::ExitInfo::Reason;

constexpr uint64_t kGibibyte = uint64_t{1} << 30;
constexpr int kDeadlineMillis = 60'000;

bool NoChildren() { return waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD; }

std::unique_ptr<ChildProcess> StartShell(const std::string& script, ChildOptions options = {}) {
  options.program = "/bin/sh";
  options.arguments = {"-c", script};
  absl::StatusOr<std::unique_ptr<ChildProcess>> child = ChildProcess::Start(options);
  INFO(child.status());
  REQUIRE(child.ok());
  return *std::move(child);
}

// Its standard error up to its end.
std::string ReadError(const ChildProcess& child) {
  std::string text;
  char bytes[4096];
  for (ssize_t got; (got = read(child.stderr_fd(), bytes, sizeof(bytes))) > 0;) {
    text.append(bytes, static_cast<size_t>(got));
  }
  return text;
}

train::ExitInfo AwaitEnd(ChildProcess& child) {
  pollfd ended{child.pid_fd(), POLLIN, 0};
  REQUIRE(poll(&ended, 1, kDeadlineMillis) == 1);
  return child.Reap();
}

TEST_CASE("an end is described by exit status, signal and the kernel's word about memory") {
  struct Case {
    int how, status;
    bool out_of_memory;
    uint64_t limit;
    Reason reason;
    int code, signal;
    const char* text;
  };
  const Case cases[] = {
      {CLD_EXITED, 0, false, 0, Reason::kExited, 0, 0, "the worker exited with status 0"},
      {CLD_EXITED, 1, false, kGibibyte, Reason::kExited, 1, 0, "the worker exited with status 1"},
      {CLD_EXITED, train::kExitOutOfMemory, false, kGibibyte, Reason::kOutOfMemory,
       train::kExitOutOfMemory, 0, "the worker ran out of memory: its limit of 1.0 GiB is reached"},
      {CLD_EXITED, train::kExitOutOfMemory, false, 0, Reason::kOutOfMemory,
       train::kExitOutOfMemory, 0, "the worker ran out of memory"},
      {CLD_KILLED, SIGKILL, true, 4 * kGibibyte, Reason::kOutOfMemory, 0, SIGKILL,
       "the worker was killed by SIGKILL: it ran out of memory: its limit of 4.0 GiB is reached"},
      {CLD_KILLED, SIGKILL, true, 0, Reason::kOutOfMemory, 0, SIGKILL,
       "the worker was killed by SIGKILL: it ran out of memory"},
      {CLD_KILLED, SIGKILL, false, kGibibyte, Reason::kCrashed, 0, SIGKILL,
       "the worker was killed by SIGKILL, perhaps by the system for lack of memory"},
      {CLD_DUMPED, SIGSEGV, false, 0, Reason::kCrashed, 0, SIGSEGV,
       "the worker was killed by SIGSEGV"},
      // Real-time signals have no names of their own (signal(7)).
      {CLD_KILLED, 40, false, 0, Reason::kCrashed, 0, 40, "the worker was killed by signal 40"},
  };
  for (const Case& c : cases) {
    INFO(c.text);
    const train::ExitInfo info = DescribeExit(c.how, c.status, c.out_of_memory, c.limit);
    CHECK(info.reason == c.reason);
    CHECK(info.code == c.code);
    CHECK(info.signal == c.signal);
    CHECK(info.text == c.text);
  }
}

TEST_CASE("a program that cannot be started is named with the reason, and leaves nothing behind") {
  testing::TemporaryFolder folder;
  PosixFileSystem files;
  const auto start = [](const std::string& program) {
    ChildOptions options;
    options.program = program;
    return ChildProcess::Start(options).status();
  };
  const std::string path = folder.path() + "/gdf-worker";
  SECTION("not there") {
    const absl::Status status = start(path);
    CHECK(absl::IsNotFound(status));
    CHECK(status.message() == "cannot start " + path + ": No such file or directory");
  }
  SECTION("not executable") {
    REQUIRE(files.WriteAtomic(path, "#!/bin/sh\n", 0644).ok());
    const absl::Status status = start(path);
    CHECK(absl::IsPermissionDenied(status));
    CHECK(status.message() == "cannot start " + path + ": Permission denied");
  }
  SECTION("no program") {
    REQUIRE(files.WriteAtomic(path, "these are no instructions", 0755).ok());
    CHECK(start(path).message() == "cannot start " + path + ": Exec format error");
  }
  SECTION("a folder") { CHECK(absl::IsPermissionDenied(start(folder.path()))); }
  SECTION("a control group that is gone") {
    SpawnRequest request;
    request.program = "/bin/true";
    request.cgroup_procs = 999;  // no open descriptor
    const absl::Status status = Spawn(request).status();
    CHECK(absl::StrContains(status.message(), "cannot put into its control group /bin/true"));
  }
  CHECK(NoChildren());
}

TEST_CASE("a child has the limits, environment and descriptors that it is given, no more") {
  ChildOptions options;
  options.memory_bytes = uint64_t{256} << 20;
  options.environment = {"PATH=/usr/bin:/bin", "ONLY=this"};
  // sh adds PWD and the like by itself; what this process has must not be there.
  REQUIRE(setenv("GDF_TEST_SECRET", "1", 1) == 0);
  const auto child = StartShell(
      "{ ulimit -d; ulimit -c; ulimit -n; echo $ONLY ${GDF_TEST_SECRET-none}; "
      "test -S /proc/self/fd/3 && echo socket; test -e /proc/self/fd/4 || echo alone; } >&2",
      options);
  // ulimit -d counts KiB.
  CHECK(ReadError(*child) == "262144\n0\n512\nthis none\nsocket\nalone\n");
  CHECK(child->memory_limit() == "memory limit by control group (RLIMIT_DATA is used instead); start gdfd by its "
                                 "systemd unit, which has Delegate=yes");
  CHECK_FALSE(child->has_cgroup());
  CHECK(AwaitEnd(*child).reason == Reason::kExited);
}

TEST_CASE("the limit stops a program that takes more, in time for it to say so") {
  ChildOptions options;
  options.memory_bytes = uint64_t{64} << 20;
  const auto within = StartShell("exec /bin/dd if=/dev/zero of=/dev/null bs=16M count=1", options);
  CHECK_FALSE(absl::StrContains(ReadError(*within), "exhausted"));
  CHECK(AwaitEnd(*within).code == 0);
  const auto beyond = StartShell("exec /bin/dd if=/dev/zero of=/dev/null bs=128M count=1", options);
  CHECK(absl::StrContains(ReadError(*beyond), "memory exhausted"));  // coreutils' words
  CHECK(AwaitEnd(*beyond).code == 1);
}

TEST_CASE("a control group that cannot be made is an error, not a worker without limits") {
  ChildOptions options;
  options.program = "/bin/true";
  options.cgroup_parent = "/nonexistent/group";
  const absl::Status status = ChildProcess::Start(options).status();
  CHECK(absl::StrContains(status.message(), "/nonexistent/group"));
  CHECK(NoChildren());
}

TEST_CASE("a child that is not confined is not taken for one that is") {
  const auto child = StartShell("read line <&3");
  CHECK(absl::IsFailedPrecondition(child->CheckConfined()));
  child->Kill();
  child->Kill();
  const train::ExitInfo info = AwaitEnd(*child);
  CHECK(info.signal == SIGKILL);
}

TEST_CASE("a child ends with its object") {
  { const auto child = StartShell("kill -STOP $$"); }
  CHECK(NoChildren());
}

}  // namespace
}  // namespace gdf::supervisor
