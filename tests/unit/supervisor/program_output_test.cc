// Programs that print little, much, nothing, never end or leave others behind: all are shell
// scripts.
#include "gdfd/supervisor/program_output.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/base/executor.h"
#include "tests/support/temporary_folder.h"

namespace gdf::supervisor {
namespace {

using absl::StatusCode;
using Catch::Matchers::Contains;
using Output = absl::StatusOr<std::string>;

OutputRequest Shell(const std::string& script) {
  OutputRequest request;
  request.program = "/bin/sh";
  request.arguments = {"-c", script};
  request.environment = {"PATH=/usr/bin:/bin"};
  request.label = "shell";
  return request;
}

struct World {
  SystemClock clock;
  LoopExecutor executor{clock};

  Output Await(OutputRequest request) {
    std::optional<Output> output;
    TaskScope scope(executor);
    scope.Spawn(Store(&executor, std::move(request), &output));
    executor.Run();
    return *std::move(output);
  }
  static Task<void> Store(LoopExecutor* executor, OutputRequest request,
                          std::optional<Output>* out) {
    Output output = co_await ReadOutput(*executor, std::move(request));
    out->emplace(std::move(output));
    executor->Stop();
  }
};

void Refused(const Output& output, StatusCode code, const std::string& text) {
  INFO(output.status());
  CHECK(output.status().code() == code);
  CHECK_THAT(std::string(output.status().message()), Contains(text));
}

pid_t ReadPid(const std::string& path) {
  std::ifstream file(path);
  pid_t pid = 0;
  file >> pid;
  return pid;
}

// Waits for the end of a process whose parent has ended before it.
bool WasKilled(pid_t orphan) {
  int status = 0;
  return waitpid(orphan, &status, 0) == orphan && WIFSIGNALED(status) &&
         WTERMSIG(status) == SIGKILL;
}

}  // namespace

TEST_CASE("what a program prints is given, also the last of it and nothing") {
  World world;
  CHECK(*world.Await(Shell("echo one; echo two")) == "one\ntwo\n");
  CHECK(*world.Await(Shell("printf x; echo loud >&2")) == "x");
  CHECK(world.Await(Shell("true"))->empty());
  CHECK(world.Await(Shell("exec >&-; exec 2>&-; read line < /dev/null; true"))->empty());
}

TEST_CASE("a program inherits its environment and no descriptor") {
  World world;
  CHECK(*world.Await(Shell("env | grep -v -e ^PWD -e ^_ -e ^SHLVL -e ^OLDPWD")) ==
        "PATH=/usr/bin:/bin\n");
  // The fourth is the one with which ls reads the folder.
  CHECK(*world.Await(Shell("exec ls /proc/self/fd")) == "0\n1\n2\n3\n");
}

TEST_CASE("a program that fails is told by its status and its last words") {
  World world;
  Refused(world.Await(Shell("echo much; echo so it is >&2; exit 3")), StatusCode::kUnavailable,
          "exited with status 3; its last line: so it is");
  Refused(world.Await(Shell("kill -SEGV $$")), StatusCode::kUnavailable, "killed by SIGSEGV");
  OutputRequest missing = Shell("");
  missing.program = "/nowhere/gdf-worker";
  Refused(world.Await(missing), StatusCode::kNotFound, "/nowhere/gdf-worker");
}

TEST_CASE("a program that prints too much is ended") {
  World world;
  OutputRequest request = Shell("yes");
  request.max_bytes = 1000;
  Refused(world.Await(request), StatusCode::kResourceExhausted, "printed more than 1000 B");
  request = Shell("head -c 1001 /dev/zero");
  request.max_bytes = 1000;
  Refused(world.Await(request), StatusCode::kResourceExhausted, "printed more than");
  request = Shell("head -c 1000 /dev/zero");
  request.max_bytes = 1000;
  CHECK(world.Await(request)->size() == 1000);
}

TEST_CASE("a program that hangs is ended at its deadline, with what it has started") {
  REQUIRE(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  World world;
  testing::TemporaryFolder folder;
  const std::string file = folder.path() + "/pid";
  OutputRequest request =
      Shell("trap '' TERM HUP INT; sleep 1000 & echo $! > " + file + "; echo early; wait");
  request.deadline = absl::Seconds(1);
  Refused(world.Await(request), StatusCode::kDeadlineExceeded, "did not end within 1 s");
  CHECK(WasKilled(ReadPid(file)));
}

TEST_CASE("what holds a program's output open when it has ended is not waited for") {
  REQUIRE(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  World world;
  testing::TemporaryFolder folder;
  const std::string file = folder.path() + "/pid";
  OutputRequest request = Shell("sleep 1000 & echo $! > " + file + "; echo done");
  request.deadline = absl::Minutes(10);
  CHECK(*world.Await(request) == "done\n");
  CHECK(WasKilled(ReadPid(file)));
}

TEST_CASE("a program ends with the task that reads it") {
  World world;
  testing::TemporaryFolder folder;
  const std::string file = folder.path() + "/pid";
  OutputRequest request = Shell("echo $$ > " + file + "; sleep 1000");
  request.deadline = absl::Minutes(10);
  std::optional<Output> output;
  auto scope = std::make_unique<TaskScope>(world.executor);
  scope->Spawn(World::Store(&world.executor, std::move(request), &output));
  world.executor.PostAfter(absl::ZeroDuration(), [&] { world.executor.Stop(); });
  world.executor.Run();
  const absl::Duration end = world.clock.Monotonic() + absl::Seconds(60);
  while (ReadPid(file) == 0 && world.clock.Monotonic() < end) sched_yield();
  const pid_t pid = ReadPid(file);
  REQUIRE(pid > 0);
  scope.reset();
  CHECK(kill(pid, 0) != 0);
  CHECK_FALSE(output.has_value());
}

}  // namespace gdf::supervisor
