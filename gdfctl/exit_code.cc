#include "gdfctl/exit_code.h"

namespace gdf::ctl {

ExitCode ExitCodeOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kResourceExhausted:  // no room there: disk, memory, callers
      return kExitNoConnection;
    case absl::StatusCode::kDeadlineExceeded:
      return kExitTimeout;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      return kExitUsage;
    case absl::StatusCode::kCancelled:
      return kExitCancelled;
    default:
      return kExitInternal;
  }
}

ExitCode ExitCodeOf(control::JobPhase phase) {
  switch (phase) {
    case control::JobPhase::kSucceeded: return kExitOk;
    case control::JobPhase::kFailed: return kExitJobFailed;
    case control::JobPhase::kCancelled: return kExitCancelled;
    default: return kExitInternal;
  }
}

}  // namespace gdf::ctl
