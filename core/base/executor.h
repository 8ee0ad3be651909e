// Where protocol code runs: one logical thread, with timers. Everything that runs on one Executor is
// mutually exclusive, so protocol state needs no locks. Real: LoopExecutor; simulated: SimExecutor.
#ifndef GDF_CORE_BASE_EXECUTOR_H_
#define GDF_CORE_BASE_EXECUTOR_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/monotonic_cond_var.h"

namespace gdf {

class Executor {
 public:
  using Function = absl::AnyInvocable<void()>;
  using TimerId = uint64_t;

  virtual ~Executor() = default;
  // Runs `fn` later on this executor, in the order posted. Any thread.
  virtual void Post(Function fn) = 0;
  // Runs `fn` once `delay` has passed on the monotonic clock (at once if it is not positive). Any thread.
  virtual TimerId PostAfter(absl::Duration delay, Function fn) = 0;
  // Forgets a timer that has not run yet; a no-op otherwise. On this executor only: there a cancelled
  // timer is sure not to run.
  virtual void Cancel(TimerId timer) = 0;
  virtual const Clock& clock() const = 0;
};

// The timer queue that both executors share. Not thread-safe.
class TimerQueue {
 public:
  Executor::TimerId Add(absl::Duration when, Executor::Function fn);
  void Cancel(Executor::TimerId timer);
  bool empty() const { return timers_.empty(); }
  absl::Duration NextAt() const;             // InfiniteDuration when empty
  Executor::Function PopDue(absl::Duration now);  // null when none is due

 private:
  Executor::TimerId next_ = 1;
  std::map<std::pair<absl::Duration, Executor::TimerId>, Executor::Function> timers_;
  std::map<Executor::TimerId, absl::Duration> times_;
};

// Runs on the thread that calls Run().
class LoopExecutor final : public Executor {
 public:
  explicit LoopExecutor(const Clock& clock) : clock_(clock) {}
  void Post(Function fn) override;
  TimerId PostAfter(absl::Duration delay, Function fn) override;
  void Cancel(TimerId timer) override;
  const Clock& clock() const override { return clock_; }

  // Runs functions and timers until Stop(); may be called again after it. Functions left in the queue
  // are dropped with the executor.
  void Run();
  void Stop();  // any thread
  // Makes Run() possible again after it has returned.
  void Resume();

 private:
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stop_ || !ready_.empty(); }

  const Clock& clock_;
  absl::Mutex mutex_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Function> ready_ ABSL_GUARDED_BY(mutex_);
  TimerQueue timers_ ABSL_GUARDED_BY(mutex_);
  MonotonicCondVar wake_;
};

// Simulated time: runs what is ready, then jumps to the next timer. One thread; same calls, same history.
class SimExecutor final : public Executor, public Clock {
 public:
  // Calendar time at monotonic zero is `start`.
  explicit SimExecutor(absl::Time start = absl::FromUnixSeconds(1'700'000'000)) : start_(start) {}
  void Post(Function fn) override { ready_.push_back(std::move(fn)); }
  TimerId PostAfter(absl::Duration delay, Function fn) override;
  void Cancel(TimerId timer) override { timers_.Cancel(timer); }
  const Clock& clock() const override { return *this; }
  absl::Time Now() const override { return start_ + now_; }
  absl::Duration Monotonic() const override { return now_; }

  // Runs until nothing is left or `limit` of simulated time has passed. Returns true when nothing is left.
  bool RunUntilIdle(absl::Duration limit = absl::Hours(24));
  // Runs one function or jumps to the next timer; false when there is neither.
  bool Step();
  // Runs until `done` holds (checked after each function), nothing is left, or `limit` has passed. Returns done().
  bool RunUntil(absl::AnyInvocable<bool()> done, absl::Duration limit = absl::Hours(24));

 private:
  const absl::Time start_;
  absl::Duration now_;
  std::vector<Function> ready_;
  size_t ready_at_ = 0;
  TimerQueue timers_;
};

}  // namespace gdf

#endif  // GDF_CORE_BASE_EXECUTOR_H_
