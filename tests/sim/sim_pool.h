// A process's compute pool on simulated time: work is done at once, or after a while where the disk is slow, and not at
// all once the process is gone.
#ifndef GDF_TESTS_SIM_SIM_POOL_H_
#define GDF_TESTS_SIM_SIM_POOL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "core/base/compute_pool.h"
#include "core/base/rng.h"

namespace gdf::sim {

class SimPool final : public ComputePool {
 public:
  // Work takes up to `*slowness`, which may change.
  SimPool(Executor& executor, uint64_t seed, const absl::Duration* slowness)
      : executor_(executor), rng_(seed), slowness_(slowness) {}
  void Submit(absl::AnyInvocable<void()> work) override {
    if (*slowness_ == absl::ZeroDuration()) return work();
    const uint64_t id = next_++;
    waiting_.emplace(id, std::move(work));
    executor_.PostAfter(*slowness_ * rng_.Unit(), [this, alive = std::weak_ptr(alive_), id] {
      if (!alive.expired()) waiting_.extract(id).mapped()();
    });
  }
  int parallelism() const override { return 1; }

 private:
  Executor& executor_;
  SeededRng rng_;
  const absl::Duration* slowness_;
  uint64_t next_ = 0;
  std::map<uint64_t, absl::AnyInvocable<void()>> waiting_;  // goes with the process, with the files that it holds
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>();
};

}  // namespace gdf::sim

#endif  // GDF_TESTS_SIM_SIM_POOL_H_
