// How much a member may add to the log: everybody keeps it, for ever.
#ifndef GDF_CORE_MEMBERSHIP_ALLOWANCE_H_
#define GDF_CORE_MEMBERSHIP_ALLOWANCE_H_

#include <algorithm>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/wire/state_commands.h"

namespace gdf::membership {

// Bytes of commands, which come back with time.
class Allowance {
 public:
  // A job's lead reports twice a second, in less than half of this.
  static constexpr double kBytesPerSec = 8 << 10;
  // Any command fits, and so do the events of a node on which much goes wrong at once.
  static constexpr double kBurstBytes = wire::kMaxCommandBytes;
  // A short command costs a row, its index and a transaction all the same.
  static constexpr size_t kMinCommandBytes = 1 << 10;

  // kUnavailable when it is used up; then nothing is taken. `now` never goes back.
  absl::Status Take(size_t bytes, absl::Duration now) {
    left_ = std::min(kBurstBytes, left_ + kBytesPerSec * absl::ToDoubleSeconds(now - refilled_));
    refilled_ = now;
    const double cost = static_cast<double>(std::max(bytes, kMinCommandBytes));
    if (cost > left_) {
      return absl::UnavailableError(
          "this node has proposed more than the network takes of one at a time; it takes more later");
    }
    left_ -= cost;
    return absl::OkStatus();
  }

 private:
  double left_ = kBurstBytes;
  absl::Duration refilled_;
};

}  // namespace gdf::membership

#endif  // GDF_CORE_MEMBERSHIP_ALLOWANCE_H_
