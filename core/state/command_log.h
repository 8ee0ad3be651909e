// The command log where one node writes it: stamps commands with the time, appends and applies them. Several coordinators
// write it with core/consensus.
//
//   wire::Command command{.request = ..., .actor = peer, .body = wire::CancelJob{job, "by its owner"}};
//   GDF_ASSIGN_OR_RETURN(wire::CommandResult result, log.Propose(std::move(command)));
#ifndef GDF_CORE_STATE_COMMAND_LOG_H_
#define GDF_CORE_STATE_COMMAND_LOG_H_

#include "absl/status/statusor.h"
#include "core/base/clock.h"
#include "core/state/state.h"
#include "core/wire/state_commands.h"

namespace gdf::state {

// On the state's thread.
class CommandLog {
 public:
  // Both outlive the log.
  CommandLog(State& state, const Clock& clock) : state_(state), clock_(clock) {}

  // Returns once the command is on the disk and applied; a repeated request gets the first result
  // without a new entry. `command.at_unix_ms` is overwritten. A refused command is a result with a
  // failed status, and no entry; the outer Status is for a command that cannot be one (kInvalidArgument) and for
  // the disk (kResourceExhausted, kDataLoss), and then nothing has changed.
  // `command.actor` must have been authenticated by the caller.
  absl::StatusOr<wire::CommandResult> Propose(wire::Command command);

  // Why the last command that could be one was not taken by the disk; OK when it was.
  const absl::Status& disk_status() const { return disk_status_; }

 private:
  State& state_;
  const Clock& clock_;
  absl::Status disk_status_;
};

}  // namespace gdf::state

#endif  // GDF_CORE_STATE_COMMAND_LOG_H_
