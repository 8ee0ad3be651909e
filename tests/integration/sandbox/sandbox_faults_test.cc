// A worker that crashes, hangs, lies or outlives its use: always an event with its reason, never
// the end of the daemon, and nothing left behind.
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/train/unique_fd.h"
#include "world.h"

namespace gdf::supervisor {
namespace {

using Reason = train::ExitInfo::Reason;

bool Contains(const std::string& text, const std::string& part) {
  return absl::StrContains(text, part);
}

// The worker misbehaves at the next request; gives what that request and the end say.
train::ExitInfo MisbehaveOnce(World& world, const std::string& mode, WorkerOptions options = {}) {
  const auto worker = world.StartLoaded(std::move(options));
  world.Order(*worker, "mode " + mode);
  const absl::Status saved = world.Save(*worker);
  train::ExitInfo info = world.Await(worker->WaitForExit());
  INFO(info.text);
  CHECK(!info.text.empty());
  CHECK(saved.code() == (info.reason == Reason::kOutOfMemory ? absl::StatusCode::kResourceExhausted
                                                             : absl::StatusCode::kUnavailable));
  // The session stays ended, with the same reason for every later call.
  const absl::StatusOr<train::EvalResult> later = world.Await(worker->Evaluate(1));
  CHECK(later.status().code() == saved.code());
  CHECK(std::string(later.status().message()) == info.text);
  return info;
}

TEST_CASE("a crash is told by its signal and the worker's last words") {
  World world;
  const train::ExitInfo info = MisbehaveOnce(world, "abort");
  CHECK(info.reason == Reason::kCrashed);
  CHECK(info.signal == SIGABRT);
  CHECK(Contains(info.text, "SIGABRT"));
  CHECK(Contains(info.text, "something is badly wrong"));
}

TEST_CASE("an exit is told by its status") {
  World world;
  const train::ExitInfo info = MisbehaveOnce(world, "exit");
  CHECK(info.reason == Reason::kExited);
  CHECK(info.code == 7);
}

TEST_CASE("a worker killed from outside is told by its signal") {
  World world;
  const auto worker = world.StartLoaded();
  REQUIRE(kill(worker->pid(), SIGKILL) == 0);
  const train::ExitInfo info = world.Await(worker->WaitForExit());
  CHECK(info.reason == Reason::kCrashed);
  CHECK(info.signal == SIGKILL);
}

TEST_CASE("a hanging worker is ended after its silence") {
  World world;
  WorkerOptions options;
  options.call_timeout = absl::Seconds(2);
  const train::ExitInfo info = MisbehaveOnce(world, "hang", options);
  CHECK(info.reason == Reason::kHung);
  CHECK(Contains(info.text, "silent for 2 s after 'save'"));
}

TEST_CASE("a worker out of memory is told by its limit") {
  World world;
  WorkerOptions options;
  options.memory_bytes = uint64_t{256} << 20;
  const train::ExitInfo info = MisbehaveOnce(world, "eat-memory", options);
  CHECK(info.reason == Reason::kOutOfMemory);
  CHECK(Contains(info.text, "256.0 MiB"));
}

TEST_CASE("a worker that breaks the protocol is ended") {
  World world;
  for (const char* mode : {"garbage", "wrong-id", "endless-state", "growing-state", "flood"}) {
    INFO(mode);
    CHECK(MisbehaveOnce(world, mode).reason == Reason::kBrokeProtocol);
  }
}

TEST_CASE("a worker that closes its socket is ended") {
  World world;
  CHECK(MisbehaveOnce(world, "close").signal == SIGKILL);
}

TEST_CASE("a program that closes no sandbox is refused") {
  World world;
  WorkerOptions options;
  options.program = "/bin/true";
  absl::StatusOr<std::unique_ptr<WorkerProcess>> worker =
      WorkerProcess::Start(world.executor, options);
  REQUIRE(worker.ok());
  CHECK(world.Await((*worker)->Ready()).status().code() == absl::StatusCode::kUnavailable);
  CHECK(world.Await((*worker)->WaitForExit()).reason == Reason::kExited);
}

TEST_CASE("a program that is not there is named") {
  World world;
  WorkerOptions options;
  options.program = "/nonexistent/gdf-worker";
  const auto worker = WorkerProcess::Start(world.executor, options);
  CHECK(worker.status().code() == absl::StatusCode::kNotFound);
  CHECK(Contains(std::string(worker.status().message()), "/nonexistent/gdf-worker"));
}

TEST_CASE("Kill ends calls in progress") {
  World world;
  const auto worker = world.StartLoaded();
  world.Order(*worker, "mode hang");
  world.executor.PostAfter(absl::Milliseconds(50), [&] { worker->Kill(); });
  CHECK(world.Save(*worker).code() == absl::StatusCode::kUnavailable);
  CHECK(world.Await(worker->WaitForExit()).reason == Reason::kStopped);
}

TEST_CASE("a killed daemon takes its worker with it") {
  int fds[2];
  REQUIRE(pipe2(fds, O_CLOEXEC) == 0);
  const train::UniqueFd output(fds[0]);
  train::UniqueFd input(fds[1]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.get(), 1);
  char program[] = GDF_SHORT_LIVED_DAEMON, worker_program[] = GDF_HOSTILE_WORKER;
  char* arguments[] = {program, worker_program, nullptr};
  pid_t daemon = 0;
  REQUIRE(posix_spawn(&daemon, program, &actions, nullptr, arguments, environ) == 0);
  posix_spawn_file_actions_destroy(&actions);
  input.Reset();

  char text[32] = {};
  REQUIRE(read(output.get(), text, sizeof(text) - 1) > 0);
  int worker = 0;
  REQUIRE(absl::SimpleAtoi(text, &worker));
  const train::UniqueFd pid_fd(static_cast<int>(syscall(SYS_pidfd_open, worker, 0)));
  REQUIRE(pid_fd.valid());
  pollfd ended{pid_fd.get(), POLLIN, 0};
  CHECK(poll(&ended, 1, 0) == 0);  // alive
  REQUIRE(kill(daemon, SIGKILL) == 0);
  CHECK(poll(&ended, 1, 10'000) == 1);
  CHECK(waitpid(daemon, nullptr, 0) == daemon);
}

int OpenFiles() {
  DIR* folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

TEST_CASE("fifty workers leave no process, file or memory behind") {
  World world;
  world.StartLoaded();
  const int before = OpenFiles();
  for (int i = 0; i < 50; ++i) {
    const auto worker = world.StartLoaded();
    if (i % 2 == 0) worker->Kill();
  }
  CHECK(OpenFiles() == before);
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);
  CHECK(errno == ECHILD);
}

}  // namespace
}  // namespace gdf::supervisor
