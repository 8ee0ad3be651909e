// Time as a value that is passed in, so that tests and the simulator own it.
#ifndef GDF_CORE_BASE_CLOCK_H_
#define GDF_CORE_BASE_CLOCK_H_

#include "absl/time/time.h"

namespace gdf {

class Clock {
 public:
  virtual ~Clock() = default;
  // Calendar time; may jump. For records that people read and for expiry dates.
  virtual absl::Time Now() const = 0;
  // Time since an arbitrary start; never goes back. For timers, deadlines and rates.
  virtual absl::Duration Monotonic() const = 0;
};

// The machine's clocks. Thread-safe.
class SystemClock final : public Clock {
 public:
  absl::Time Now() const override;
  absl::Duration Monotonic() const override;
};

}  // namespace gdf

#endif  // GDF_CORE_BASE_CLOCK_H_
