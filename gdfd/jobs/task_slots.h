// How many workers run on this node at a time: limits.tasks of its owner, for jobs and for samples.
#ifndef GDF_GDFD_JOBS_TASK_SLOTS_H_
#define GDF_GDFD_JOBS_TASK_SLOTS_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "core/base/task.h"

namespace gdf::jobs {

// On the executor.
class TaskSlots {
 public:
  // Free again when the last copy is gone. Null: none.
  using Slot = std::shared_ptr<void>;

  explicit TaskSlots(int64_t limit = std::numeric_limits<int64_t>::max())
      : state_(std::make_shared<State>(State{limit, limit, {}})) {}

  int64_t limit() const { return state_->limit; }
  // Null when all are taken.
  Slot TryTake();
  // The next that is free. Who waits longest asks first.
  Task<Slot> Take(Executor& executor);

 private:
  struct State {
    int64_t limit;
    int64_t free;
    std::vector<OneShot<bool>> waiting;
  };
  std::shared_ptr<State> state_;
};

}  // namespace gdf::jobs

#endif  // GDF_GDFD_JOBS_TASK_SLOTS_H_
