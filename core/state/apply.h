// What each command does to the tables. For state.cc only.
#ifndef GDF_CORE_STATE_APPLY_H_
#define GDF_CORE_STATE_APPLY_H_

#include "absl/status/status.h"
#include "core/store/sqlite.h"
#include "core/wire/state_commands.h"

namespace gdf::state {

// Applies one command inside the caller's transaction and fills `result` but for its status. A failed
// status is the refusal of the command, or an error of the database: then db.error() is set. Either
// way the caller undoes what was written. Depends on the tables and the command alone.
absl::Status ApplyCommand(store::Database& db, const wire::Command& command, wire::CommandResult* result);

}  // namespace gdf::state

#endif  // GDF_CORE_STATE_APPLY_H_
