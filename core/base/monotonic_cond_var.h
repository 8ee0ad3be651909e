// A condition variable whose waits go by the monotonic clock. Those of abseil and of absl::Mutex wait for a calendar time: a
// clock that is set back by an hour in the meantime makes them an hour longer.
#ifndef GDF_CORE_BASE_MONOTONIC_COND_VAR_H_
#define GDF_CORE_BASE_MONOTONIC_COND_VAR_H_

#include <condition_variable>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace gdf {

class MonotonicCondVar {
 public:
  // Wakes one that waits. Any thread, with or without the mutex.
  void Signal() { condition_.notify_one(); }
  // Gives `mutex` up until Signal(), until `timeout` has passed, or for no reason.
  void WaitWithTimeout(absl::Mutex* mutex, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // Returns whether `done`, which is called with `mutex` held, holds before `timeout` has passed.
  bool Await(absl::Mutex* mutex, absl::Duration timeout, absl::FunctionRef<bool()> done) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

 private:
  std::condition_variable_any condition_;
};

}  // namespace gdf

#endif  // GDF_CORE_BASE_MONOTONIC_COND_VAR_H_
