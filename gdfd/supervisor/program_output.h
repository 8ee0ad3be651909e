// Runs a program for what it prints, within bounds of time and length.
//
//   GDF_CO_ASSIGN_OR_RETURN(const std::string text, co_await ReadOutput(executor, request));
#ifndef GDF_GDFD_SUPERVISOR_PROGRAM_OUTPUT_H_
#define GDF_GDFD_SUPERVISOR_PROGRAM_OUTPUT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/task.h"

namespace gdf::supervisor {

struct OutputRequest {
  std::string program;
  std::vector<std::string> arguments;    // after the program's name
  std::vector<std::string> environment;  // all of it: "NAME=value"
  std::string label;                     // for the log lines of its standard error
  absl::Duration deadline = absl::Seconds(30);
  size_t max_bytes = size_t{64} << 10;
};

// What the program has written to standard output when it has ended with status 0. On the executor,
// which does not wait: a thread does. When the task is destroyed, or the deadline has passed, or
// more than `max_bytes` came, the program and what it has started are killed. kDeadlineExceeded,
// kResourceExhausted; kUnavailable when it ended otherwise, with the last line of its standard
// error; errors of Spawn.
Task<absl::StatusOr<std::string>> ReadOutput(Executor& executor, OutputRequest request);

}  // namespace gdf::supervisor

#endif  // GDF_GDFD_SUPERVISOR_PROGRAM_OUTPUT_H_
