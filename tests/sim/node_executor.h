// One node's view of the simulated world's executor: the same time, by a wall clock of its own that may jump.
#ifndef GDF_TESTS_SIM_NODE_EXECUTOR_H_
#define GDF_TESTS_SIM_NODE_EXECUTOR_H_

#include <utility>

#include "core/base/executor.h"

namespace gdf::sim {

class NodeExecutor final : public Executor, public Clock {
 public:
  explicit NodeExecutor(SimExecutor& world) : world_(world) {}
  void Post(Function fn) override { world_.Post(std::move(fn)); }
  TimerId PostAfter(absl::Duration delay, Function fn) override { return world_.PostAfter(delay, std::move(fn)); }
  void Cancel(TimerId timer) override { world_.Cancel(timer); }
  const Clock& clock() const override { return *this; }
  absl::Time Now() const override { return world_.Now() + ahead_; }
  absl::Duration Monotonic() const override { return world_.Monotonic(); }

  void set_ahead(absl::Duration ahead) { ahead_ = ahead; }

 private:
  SimExecutor& world_;
  absl::Duration ahead_;
};

}  // namespace gdf::sim

#endif  // GDF_TESTS_SIM_NODE_EXECUTOR_H_
