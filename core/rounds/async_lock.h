// A lock for coroutines of one executor: holders wait in the order they asked, no thread blocks.
#ifndef GDF_CORE_ROUNDS_ASYNC_LOCK_H_
#define GDF_CORE_ROUNDS_ASYNC_LOCK_H_

#include <deque>
#include <utility>

#include "core/base/executor.h"
#include "core/base/task.h"

namespace gdf::rounds {

// Executor only. Must outlive its holders; a coroutine that waits may be destroyed only together with the lock.
class AsyncLock {
 public:
  class [[nodiscard]] Hold {
   public:
    explicit Hold(AsyncLock* lock) : lock_(lock) {}
    Hold(Hold&& other) noexcept : lock_(std::exchange(other.lock_, nullptr)) {}
    ~Hold() {
      if (lock_ != nullptr) lock_->Release();
    }

   private:
    AsyncLock* lock_;
  };

  explicit AsyncLock(Executor& executor) : executor_(executor) {}
  Task<Hold> Acquire() {
    if (held_) {
      OneShot<bool> turn(executor_);
      waiters_.push_back(turn);
      co_await turn.Wait();
    }
    held_ = true;
    co_return Hold(this);
  }

 private:
  void Release() {
    if (waiters_.empty()) {
      held_ = false;
    } else {  // stays held, by the next
      waiters_.front().Set(true);
      waiters_.pop_front();
    }
  }
  Executor& executor_;
  bool held_ = false;
  std::deque<OneShot<bool>> waiters_;
};

}  // namespace gdf::rounds

#endif  // GDF_CORE_ROUNDS_ASYNC_LOCK_H_
