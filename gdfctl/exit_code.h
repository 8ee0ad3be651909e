// The published exit codes (docs/exit-codes.md) and which error ends with which.
#ifndef GDF_GDFCTL_EXIT_CODE_H_
#define GDF_GDFCTL_EXIT_CODE_H_

#include "absl/status/status.h"
#include "core/control/types.h"

namespace gdf::ctl {

enum ExitCode : int {
  kExitOk = 0,
  kExitJobFailed = 1,
  kExitNoConnection = 2,
  kExitTimeout = 3,
  kExitUsage = 4,
  kExitInternal = 5,
  kExitNotPlaceable = 6,
  kExitCancelled = 7,
};

// Of an error that ends a command.
ExitCode ExitCodeOf(absl::StatusCode code);
// Of the verdict of a job that has ended.
ExitCode ExitCodeOf(control::JobPhase phase);

}  // namespace gdf::ctl

#endif  // GDF_GDFCTL_EXIT_CODE_H_
