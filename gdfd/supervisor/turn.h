// First come, first served: a coroutine that waits for its turn and holds it until it ends.
//
//   Turn turn(queue);
//   co_await turn.Wait();
#ifndef GDF_GDFD_SUPERVISOR_TURN_H_
#define GDF_GDFD_SUPERVISOR_TURN_H_

#include <deque>
#include <memory>

#include "core/base/task.h"

namespace gdf::supervisor {

// On the executor only.
class TurnQueue {
 public:
  explicit TurnQueue(Executor& executor) : executor_(executor) {}

 private:
  friend class Turn;
  struct Waiter {
    explicit Waiter(Executor& executor) : granted(executor) {}
    OneShot<bool> granted;
    bool holds = false;
    bool gone = false;
  };
  void Next() {
    busy_ = false;
    while (!waiting_.empty() && !busy_) {
      std::shared_ptr<Waiter> next = std::move(waiting_.front());
      waiting_.pop_front();
      if (next->gone) continue;
      busy_ = next->holds = true;
      next->granted.Set(true);
    }
  }
  Executor& executor_;
  bool busy_ = false;
  std::deque<std::shared_ptr<Waiter>> waiting_;
};

class Turn {
 public:
  explicit Turn(std::shared_ptr<TurnQueue> queue)
      : queue_(std::move(queue)), waiter_(std::make_shared<TurnQueue::Waiter>(queue_->executor_)) {
    if (queue_->busy_) {
      queue_->waiting_.push_back(waiter_);
    } else {
      queue_->busy_ = waiter_->holds = true;
      waiter_->granted.Set(true);
    }
  }
  Turn(const Turn&) = delete;
  // Also when the coroutine is destroyed while it waits, or between the grant and its resumption.
  ~Turn() {
    waiter_->gone = true;
    if (waiter_->holds) queue_->Next();
  }
  auto Wait() { return waiter_->granted.Wait(); }

 private:
  std::shared_ptr<TurnQueue> queue_;
  std::shared_ptr<TurnQueue::Waiter> waiter_;
};

}  // namespace gdf::supervisor

#endif  // GDF_GDFD_SUPERVISOR_TURN_H_
