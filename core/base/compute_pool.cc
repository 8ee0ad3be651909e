#include "core/base/compute_pool.h"

#include "core/base/check.h"

namespace gdf {

ThreadPool::ThreadPool(int threads) {
  GDF_CHECK(threads > 0);
  threads_.reserve(threads);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Loop(); });
}

ThreadPool::~ThreadPool() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    wake_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::Submit(absl::AnyInvocable<void()> work) {
  absl::MutexLock lock(&mutex_);
  queue_.push_back(std::move(work));
  wake_.Signal();
}

void ThreadPool::Loop() {
  while (true) {
    absl::AnyInvocable<void()> work;
    {
      absl::MutexLock lock(&mutex_);
      while (head_ == queue_.size() && !stop_) wake_.Wait(&mutex_);
      if (head_ == queue_.size()) return;
      work = std::move(queue_[head_++]);
      if (head_ == queue_.size()) {
        queue_.clear();
        head_ = 0;
      }
    }
    work();
  }
}

}  // namespace gdf
