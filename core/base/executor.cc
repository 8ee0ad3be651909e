#include "core/base/executor.h"

namespace gdf {

Executor::TimerId TimerQueue::Add(absl::Duration when, Executor::Function fn) {
  const Executor::TimerId id = next_++;
  timers_.emplace(std::make_pair(when, id), std::move(fn));
  times_.emplace(id, when);
  return id;
}

void TimerQueue::Cancel(Executor::TimerId timer) {
  const auto it = times_.find(timer);
  if (it == times_.end()) return;
  timers_.erase({it->second, timer});
  times_.erase(it);
}

absl::Duration TimerQueue::NextAt() const {
  return timers_.empty() ? absl::InfiniteDuration() : timers_.begin()->first.first;
}

Executor::Function TimerQueue::PopDue(absl::Duration now) {
  if (timers_.empty() || timers_.begin()->first.first > now) return nullptr;
  Executor::Function fn = std::move(timers_.begin()->second);
  times_.erase(timers_.begin()->first.second);
  timers_.erase(timers_.begin());
  return fn;
}

void LoopExecutor::Post(Function fn) {
  absl::MutexLock lock(&mutex_);
  ready_.push_back(std::move(fn));
  wake_.Signal();
}

Executor::TimerId LoopExecutor::PostAfter(absl::Duration delay, Function fn) {
  absl::MutexLock lock(&mutex_);
  wake_.Signal();
  return timers_.Add(clock_.Monotonic() + delay, std::move(fn));
}

void LoopExecutor::Cancel(TimerId timer) {
  absl::MutexLock lock(&mutex_);
  timers_.Cancel(timer);
}

void LoopExecutor::Stop() {
  absl::MutexLock lock(&mutex_);
  stop_ = true;
  wake_.Signal();
}

void LoopExecutor::Resume() {
  absl::MutexLock lock(&mutex_);
  stop_ = false;
}

void LoopExecutor::Run() {
  std::vector<Function> batch;
  while (true) {
    Function timer;
    {
      absl::MutexLock lock(&mutex_);
      while (!HasWork()) {
        const absl::Duration wait = timers_.NextAt() - clock_.Monotonic();
        if (wait <= absl::ZeroDuration()) break;
        wake_.WaitWithTimeout(&mutex_, wait);
      }
      if (stop_) {
        stop_ = false;
        return;
      }
      batch.swap(ready_);
      timer = timers_.PopDue(clock_.Monotonic());
    }
    if (timer) timer();
    for (Function& fn : batch) fn();
    batch.clear();
  }
}

Executor::TimerId SimExecutor::PostAfter(absl::Duration delay, Function fn) {
  return timers_.Add(now_ + (delay > absl::ZeroDuration() ? delay : absl::ZeroDuration()),
                     std::move(fn));
}

bool SimExecutor::Step() {
  if (ready_at_ < ready_.size()) {
    Function fn = std::move(ready_[ready_at_++]);
    if (ready_at_ == ready_.size()) {
      ready_.clear();
      ready_at_ = 0;
    }
    fn();
    return true;
  }
  if (timers_.empty()) return false;
  if (timers_.NextAt() > now_) now_ = timers_.NextAt();
  Function fn = timers_.PopDue(now_);
  fn();
  return true;
}

bool SimExecutor::RunUntilIdle(absl::Duration limit) {
  return !RunUntil([] { return false; }, limit) && ready_.empty() && timers_.empty();
}

bool SimExecutor::RunUntil(absl::AnyInvocable<bool()> done, absl::Duration limit) {
  const absl::Duration end = now_ + limit;
  while (!done()) {
    if (ready_.empty() && timers_.NextAt() > end) {
      if (timers_.NextAt() != absl::InfiniteDuration()) now_ = end;
      return false;
    }
    if (!Step()) return false;
  }
  return true;
}

}  // namespace gdf
