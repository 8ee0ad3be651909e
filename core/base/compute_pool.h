// Work that takes time (encode, reduce, hash, disk) off the protocol thread.
#ifndef GDF_CORE_BASE_COMPUTE_POOL_H_
#define GDF_CORE_BASE_COMPUTE_POOL_H_

#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "core/base/executor.h"
#include "core/base/task.h"

namespace gdf {

class ComputePool {
 public:
  virtual ~ComputePool() = default;
  // Runs `work` once, on some thread. Any thread may call.
  virtual void Submit(absl::AnyInvocable<void()> work) = 0;
  // How many pieces run at the same time; a hint for splitting work.
  virtual int parallelism() const = 0;
};

// Fixed threads, first in first out. The destructor finishes what was submitted.
class ThreadPool final : public ComputePool {
 public:
  explicit ThreadPool(int threads);
  ~ThreadPool() override;
  void Submit(absl::AnyInvocable<void()> work) override;
  int parallelism() const override { return static_cast<int>(threads_.size()); }

 private:
  void Loop();
  absl::Mutex mutex_;
  absl::CondVar wake_;
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mutex_);  // newest last
  size_t head_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::thread> threads_;
};

// Runs work at once on the caller's thread: the simulator's pool.
class InlinePool final : public ComputePool {
 public:
  void Submit(absl::AnyInvocable<void()> work) override { work(); }
  int parallelism() const override { return 1; }
};

// Runs `work` on the pool and resumes on the executor with its result. `work` must own what it touches (by value or
// shared_ptr): when the awaiting coroutine is destroyed the work still finishes. `work` returns a value.
template <typename Work, typename Result = std::invoke_result_t<Work>>
Task<Result> RunOn(ComputePool& pool, Executor& executor, Work work) {
  OneShot<Result> done(executor);
  pool.Submit([done, work = std::move(work)]() mutable { done.Set(work()); });
  Result result = co_await done.Wait();
  co_return result;
}

}  // namespace gdf

#endif  // GDF_CORE_BASE_COMPUTE_POOL_H_
