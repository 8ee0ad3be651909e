#include "gdfd/supervisor/program_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/compute_pool.h"
#include "core/base/file_system.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/train/unique_fd.h"
#include "gdfd/supervisor/child_process.h"
#include "gdfd/supervisor/spawn.h"
#include "gdfd/supervisor/stderr_log.h"

namespace gdf::supervisor {
namespace {

using train::UniqueFd;
using Output = absl::StatusOr<std::string>;

// A killed process that does not end by then hangs in the kernel, as with a broken driver: it is
// left to itself.
constexpr absl::Duration kGrace = absl::Seconds(1);

struct Pipe {
  UniqueFd read, write;
};

absl::StatusOr<Pipe> MakePipe(const std::string& program) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoToStatus(errno, "make a pipe for", program);
  Pipe made{UniqueFd(fds[0]), UniqueFd(fds[1])};
  fcntl(made.read.get(), F_SETFL, O_NONBLOCK);
  return made;
}

int Milliseconds(absl::Duration left) {
  return static_cast<int>(std::max<int64_t>(0, absl::ToInt64Milliseconds(left) + 1));
}

// The thread that runs the program and reads it.
class Reader {
 public:
  Reader(const Clock& clock, OutputRequest request, OneShot<Output> done)
      : clock_(clock),
        request_(std::move(request)),
        log_(request_.label),
        stop_(eventfd(0, EFD_CLOEXEC)) {
    thread_.Submit([this, done = std::move(done)] { done.Set(Run()); });
  }
  ~Reader() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t wrote = write(stop_.get(), &one, sizeof(one));
  }

 private:
  Output Run() {
    GDF_ASSIGN_OR_RETURN(Pipe out, MakePipe(request_.program));
    GDF_ASSIGN_OR_RETURN(Pipe err, MakePipe(request_.program));
    SpawnRequest spawn;
    spawn.program = request_.program;
    spawn.arguments = request_.arguments;
    spawn.environment = request_.environment;
    spawn.output = out.write.get();
    spawn.error_pipe = err.write.get();
    spawn.limits = {{RLIMIT_CORE, 0}};
    const absl::Duration end = clock_.Monotonic() + request_.deadline;
    GDF_ASSIGN_OR_RETURN(const Spawned child, Spawn(spawn));
    out.write.Reset();
    err.write.Reset();
    const absl::Status read = Follow(child, out.read.get(), err.read.get(), end);
    kill(-child.pid, SIGKILL);  // its own session's group, which is its until it is reaped
    const absl::StatusOr<train::ExitInfo> exit = Reap(child);
    log_.Finish();
    GDF_RETURN_IF_ERROR(read);
    GDF_RETURN_IF_ERROR(exit.status());
    if (exit->reason == train::ExitInfo::Reason::kExited && exit->code == 0) {
      return std::move(text_);
    }
    return absl::UnavailableError(
        absl::StrCat(exit->text, log_.last_line().empty() ? "" : "; its last line: ",
                     log_.last_line()));
  }

  // Reads until the child has ended.
  absl::Status Follow(const Spawned& child, int out, int err, absl::Duration end) {
    bool out_open = true;
    while (true) {
      const absl::Duration left = end - clock_.Monotonic();
      if (left <= absl::ZeroDuration()) {
        return absl::DeadlineExceededError(absl::StrCat(
            request_.program, " did not end within ", HumanDuration(request_.deadline)));
      }
      pollfd fds[] = {{stop_.get(), POLLIN, 0},
                      {child.pid_fd.get(), POLLIN, 0},
                      {out_open ? out : -1, POLLIN, 0},
                      {log_.closed() ? -1 : err, POLLIN, 0}};
      if (poll(fds, std::size(fds), Milliseconds(left)) <= 0) continue;
      if (fds[0].revents != 0) return absl::CancelledError("stopped");
      const bool ended = fds[1].revents != 0;  // what it has written is there
      if (ended || fds[2].revents != 0) GDF_RETURN_IF_ERROR(ReadAvailable(out, &out_open));
      if (ended || fds[3].revents != 0) {
        while (log_.ReadAvailable(err)) {
        }
      }
      if (ended) return absl::OkStatus();
    }
  }

  absl::Status ReadAvailable(int out, bool* open) {
    char bytes[4096];
    while (*open) {
      const ssize_t got = read(out, bytes, sizeof(bytes));
      if (got < 0) return absl::OkStatus();  // nothing now
      *open = got > 0;
      text_.append(bytes, static_cast<size_t>(got));
      if (text_.size() > request_.max_bytes) {
        return absl::ResourceExhaustedError(absl::StrCat(
            request_.program, " printed more than ", HumanBytes(request_.max_bytes)));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<train::ExitInfo> Reap(const Spawned& child) const {
    pollfd ended{child.pid_fd.get(), POLLIN, 0};
    const absl::Duration end = clock_.Monotonic() + kGrace;
    while (poll(&ended, 1, Milliseconds(end - clock_.Monotonic())) < 0 && errno == EINTR) {
    }
    if (ended.revents == 0) {
      return absl::DeadlineExceededError(
          absl::StrCat(request_.program, ", process ", child.pid, ", cannot be killed"));
    }
    const siginfo_t info = WaitForExit(child.pid);
    return DescribeExit(info.si_code, info.si_status, /*out_of_memory=*/false, /*memory_bytes=*/0);
  }

  const Clock& clock_;
  const OutputRequest request_;
  std::string text_;
  StderrLog log_;
  const UniqueFd stop_;
  ThreadPool thread_{1};  // last: joined first
};

}  // namespace

Task<absl::StatusOr<std::string>> ReadOutput(Executor& executor, OutputRequest request) {
  OneShot<Output> done(executor);
  Reader reader(executor.clock(), std::move(request), done);
  Output output = co_await done.Wait();
  co_return output;
}

}  // namespace gdf::supervisor
