#include "core/control/types.h"

namespace gdf::control {

const char* ToString(JobPhase phase) {
  switch (phase) {
    case JobPhase::kUnknown: return "unknown";
    case JobPhase::kPending: return "pending";
    case JobPhase::kRunning: return "running";
    case JobPhase::kSucceeded: return "succeeded";
    case JobPhase::kFailed: return "failed";
    case JobPhase::kCancelled: return "cancelled";
  }
  return "unknown";
}

}  // namespace gdf::control
