#include "core/base/monotonic_cond_var.h"

#include <algorithm>
#include <chrono>

#include "core/base/clock.h"

namespace gdf {
namespace {

// What the standard library adds to the present without an overflow; whoever waits for longer looks once an hour.
constexpr absl::Duration kLongestWait = absl::Hours(1);

// An absl::Mutex as the standard library names its parts.
struct Lockable {
  absl::Mutex* mutex;
  void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Lock(); }
  void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex->Unlock(); }
};

}  // namespace

void MonotonicCondVar::WaitWithTimeout(absl::Mutex* mutex, absl::Duration timeout) {
  Lockable lock{mutex};
  condition_.wait_for(lock, absl::ToChronoNanoseconds(std::min(timeout, kLongestWait)));
}

bool MonotonicCondVar::Await(absl::Mutex* mutex, absl::Duration timeout, absl::FunctionRef<bool()> done) {
  const SystemClock clock;
  const absl::Duration end = clock.Monotonic() + timeout;
  while (!done()) {
    const absl::Duration left = end - clock.Monotonic();
    if (left <= absl::ZeroDuration()) return false;
    WaitWithTimeout(mutex, left);
  }
  return true;
}

}  // namespace gdf
