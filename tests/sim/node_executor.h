// One node's view of the simulated world's executor: the same time, by a wall clock of its own that may jump. Frozen, as a
// process that was stopped, it runs nothing until it is thawed.
#ifndef GDF_TESTS_SIM_NODE_EXECUTOR_H_
#define GDF_TESTS_SIM_NODE_EXECUTOR_H_

#include <deque>
#include <memory>
#include <utility>

#include "core/base/executor.h"

namespace gdf::sim {

class NodeExecutor final : public Executor, public Clock {
 public:
  explicit NodeExecutor(SimExecutor& world) : world_(world) {}
  void Post(Function fn) override {
    world_.Post([this, fn = std::move(fn)]() mutable { RunOrHold(0, std::move(fn)); });
  }
  TimerId PostAfter(absl::Duration delay, Function fn) override {
    const auto timer = std::make_shared<TimerId>();
    *timer = world_.PostAfter(delay, [this, timer, fn = std::move(fn)]() mutable { RunOrHold(*timer, std::move(fn)); });
    return *timer;
  }
  void Cancel(TimerId timer) override {
    world_.Cancel(timer);
    std::erase_if(held_, [timer](const auto& held) { return held.first == timer; });
  }
  const Clock& clock() const override { return *this; }
  absl::Time Now() const override { return world_.Now() + ahead_; }
  absl::Duration Monotonic() const override { return world_.Monotonic(); }

  void set_ahead(absl::Duration ahead) { ahead_ = ahead; }
  void Freeze() { frozen_ = true; }
  void Thaw() {
    frozen_ = false;
    RunHeldSoon();
  }

 private:
  void RunOrHold(TimerId timer, Function fn) {
    if (frozen_ || !held_.empty()) {
      held_.emplace_back(timer, std::move(fn));
    } else {
      fn();
    }
  }

  // One after the other, since each may cancel those that follow.
  void RunHeldSoon() {
    if (held_.empty()) return;
    world_.Post([this] {
      if (frozen_ || held_.empty()) return;
      Function fn = std::move(held_.front().second);
      held_.pop_front();
      fn();
      RunHeldSoon();
    });
  }

  SimExecutor& world_;
  absl::Duration ahead_;
  bool frozen_ = false;
  std::deque<std::pair<TimerId, Function>> held_;  // what came due since; 0: no timer
};

}  // namespace gdf::sim

#endif  // GDF_TESTS_SIM_NODE_EXECUTOR_H_
