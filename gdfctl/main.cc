// gdfctl: the real streams, terminal, environment and signals around Run().
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "absl/synchronization/mutex.h"
#include "gdfctl/run.h"

namespace {

constexpr int kDefaultColumns = 80;

// SIGINT and SIGTERM end the program as they would anyway, after a notice. Signals are blocked in all threads and taken
// by one of its own, so that nothing runs inside a handler.
class Interrupts {
 public:
  Interrupts() {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
    std::thread([this] { Run(); }).detach();  // lives as long as the process
  }
  void SetNotice(const std::string& notice) {
    absl::MutexLock lock(&mutex_);
    notice_ = notice;
  }

 private:
  void Run() {
    int signal = 0;
    sigwait(&signals_, &signal);
    absl::MutexLock lock(&mutex_);
    if (!notice_.empty()) std::cerr << "\n" << notice_ << std::endl;
    ::signal(signal, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
    kill(getpid(), signal);
  }

  sigset_t signals_;
  absl::Mutex mutex_;
  std::string notice_ ABSL_GUARDED_BY(mutex_);
};

int Columns() {
  winsize size{};
  for (const int fd : {STDERR_FILENO, STDOUT_FILENO}) {
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  }
  return kDefaultColumns;
}

// Whoever reads standard output may go away meanwhile: that ends the program as a write to it would.
bool Wait(absl::Duration duration) {
  pollfd out{STDOUT_FILENO, 0, 0};  // asks for nothing: told are an error and a hang-up
  poll(&out, 1, static_cast<int>(std::clamp<int64_t>(absl::ToInt64Milliseconds(duration), 0, INT_MAX)));
  if ((out.revents & POLLERR) != 0) raise(SIGPIPE);
  return (out.revents & (POLLERR | POLLHUP)) == 0;
}

absl::StatusOr<std::string> Ask(const std::string& question, bool secret) {
  std::cerr << question << std::flush;
  termios shown{};
  tcgetattr(STDIN_FILENO, &shown);
  termios hidden = shown;
  hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
  if (secret) tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
  std::string answer;
  const bool read = static_cast<bool>(std::getline(std::cin, answer));
  if (secret) {
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown);
    std::cerr << std::endl;
  }
  if (!read) return absl::InvalidArgumentError("nothing was entered");
  return answer;
}

}  // namespace

int main(int argc, char** argv) {
  static Interrupts interrupts;
  gdf::PosixFileSystem files;
  const gdf::SystemClock clock;
  gdf::ctl::Environment environment{.out = std::cout,
                                    .err = std::cerr,
                                    .out_is_terminal = isatty(STDOUT_FILENO) == 1,
                                    .err_is_terminal = isatty(STDERR_FILENO) == 1,
                                    .columns = Columns,
                                    .variable = [](const std::string& name) -> std::optional<std::string> {
                                      const char* value = std::getenv(name.c_str());
                                      return value == nullptr ? std::nullopt : std::optional<std::string>(value);
                                    },
                                    .files = files,
                                    .clock = clock,
                                    .zone = absl::LocalTimeZone(),
                                    .ask = nullptr,
                                    .wait = Wait,
                                    .set_interrupt_notice = [](const std::string& text) { interrupts.SetNotice(text); }};
  if (isatty(STDIN_FILENO) == 1 && environment.err_is_terminal) environment.ask = Ask;
  return gdf::ctl::Run(std::vector<std::string>(argv + 1, argv + argc), environment);
}
