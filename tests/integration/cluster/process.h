// A child process of a test: its output is read here, and every wait has a deadline.
#ifndef GDF_TESTS_INTEGRATION_CLUSTER_PROCESS_H_
#define GDF_TESTS_INTEGRATION_CLUSTER_PROCESS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/train/unique_fd.h"

namespace gdf::cluster {

// Whatever is awaited is an event that must come; this is for a machine that does ten other things.
inline constexpr absl::Duration kDeadline = absl::Seconds(120);

// Ends with the test, however that ends.
class Process {
 public:
  struct Options {
    std::vector<std::string> arguments;  // the program first
    std::string error_file;              // standard error is appended to it
    bool output_to_error_file = false;   // standard output too; else it is read here
    int ready_fd = -1;                   // becomes descriptor kReadyFd
    std::vector<std::string> environment = {};  // more "NAME=value"
  };
  static constexpr int kReadyFd = 9;

  explicit Process(const Options& options);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();  // kills

  pid_t pid() const { return pid_; }
  bool running() const { return !exit_code_.has_value(); }
  void Signal(int signal);
  // The exit code, or 128 + the signal that ended it; nothing when it still runs after `timeout`.
  std::optional<int> Wait(absl::Duration timeout = kDeadline);

  // The next line of standard output, without its end; nothing at the output's end or after
  // `timeout`.
  std::optional<std::string> ReadLine(absl::Duration timeout = kDeadline);
  // All the rest of standard output.
  std::string ReadAll(absl::Duration timeout = kDeadline);
  bool at_end() const { return at_end_; }

 private:
  bool FillBuffer(absl::Duration until);

  pid_t pid_ = -1;
  train::UniqueFd pid_fd_;
  train::UniqueFd output_;
  std::string buffer_;
  bool at_end_ = false;
  std::optional<int> exit_code_;
};

absl::Duration MonotonicNow();
// Waits until `fd` can be read; false after `timeout`.
bool AwaitReadable(int fd, absl::Duration timeout);

// Ids of the processes that `pid` has started and that are not reaped yet.
std::vector<pid_t> ChildrenOf(pid_t pid);
// The program's name as the kernel keeps it (15 characters); empty when there is no such process.
std::string NameOf(pid_t pid);
// Waits until the process has ended, and reaps it when it is a child of this one.
bool AwaitEnd(pid_t pid, absl::Duration timeout = kDeadline);

}  // namespace gdf::cluster

#endif  // GDF_TESTS_INTEGRATION_CLUSTER_PROCESS_H_
