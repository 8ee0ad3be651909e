#include "core/state/command_log.h"

#include <algorithm>

#include "absl/time/time.h"
#include "core/base/status_macros.h"

namespace gdf::state {

absl::StatusOr<wire::CommandResult> CommandLog::Propose(wire::Command command) {
  GDF_ASSIGN_OR_RETURN(std::optional<wire::CommandResult> first, state_.ResultOf(command.actor, command.request));
  if (first) return *std::move(first);
  // The calendar may jump back; the log does not.
  command.at_unix_ms = std::max(state_.last_time_unix_ms(), absl::ToUnixMillis(clock_.Now()));
  GDF_RETURN_IF_ERROR(wire::CheckCommand(command));
  absl::StatusOr<wire::CommandResult> result = state_.Append(command);
  disk_status_ = result.status();
  return result;
}

}  // namespace gdf::state
