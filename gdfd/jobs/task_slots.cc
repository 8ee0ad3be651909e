#include "gdfd/jobs/task_slots.h"

#include <utility>

namespace gdf::jobs {

TaskSlots::Slot TaskSlots::TryTake() {
  if (state_->free == 0) return nullptr;
  --state_->free;
  // All are woken: the first of them may be waiting no more.
  return Slot(state_.get(), [state = state_](void*) {
    ++state->free;
    for (const OneShot<bool>& waiter : std::exchange(state->waiting, {})) waiter.Set(true);
  });
}

Task<TaskSlots::Slot> TaskSlots::Take(Executor& executor) {
  while (true) {
    if (Slot slot = TryTake()) co_return slot;
    OneShot<bool> freed(executor);
    state_->waiting.push_back(freed);
    co_await freed.Wait();
  }
}

}  // namespace gdf::jobs
