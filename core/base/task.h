// Coroutines over an Executor: Task<T> (lazy, owned), TaskScope (detached tasks that end with their owner),
// OneShot<T> (a value set once, from any thread), Channel<T>, Sleep and WhenAll.
// Destroying a suspended Task destroys its frame and everything it waits for; nothing of it runs afterwards.
//
//   Task<absl::Status> Ping(Executor& executor) {
//     co_await Sleep(executor, absl::Seconds(1));
//     co_return absl::OkStatus();
//   }
#ifndef GDF_CORE_BASE_TASK_H_
#define GDF_CORE_BASE_TASK_H_

#include <coroutine>
#include <deque>
#include <exception>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "core/base/check.h"
#include "core/base/executor.h"

namespace gdf {

template <typename T>
class Task;

namespace task_internal {

struct FinalAwaiter {
  bool await_ready() noexcept { return false; }
  template <typename Promise>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> h) noexcept {
    std::coroutine_handle<> next = h.promise().continuation;
    return next ? next : std::noop_coroutine();
  }
  void await_resume() noexcept {}
};

struct PromiseBase {
  std::coroutine_handle<> continuation;
  std::suspend_always initial_suspend() noexcept { return {}; }
  FinalAwaiter final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { std::terminate(); }  // our code reports by Status
};

template <typename T>
struct Promise : PromiseBase {
  std::optional<T> value;
  Task<T> get_return_object();
  template <typename U>
  void return_value(U&& u) {
    value.emplace(std::forward<U>(u));
  }
  T Take() { return *std::move(value); }
};

template <>
struct Promise<void> : PromiseBase {
  Task<void> get_return_object();
  void return_void() {}
  void Take() {}
};

}  // namespace task_internal

// A coroutine that starts when it is awaited. Move-only; must be awaited at most once.
template <typename T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = task_internal::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      if (handle_) handle_.destroy();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) noexcept {
    handle_.promise().continuation = caller;
    return handle_;
  }
  T await_resume() { return handle_.promise().Take(); }

  // Runs up to the first suspension, without a continuation. For TaskScope and WhenAll.
  void Start() { handle_.resume(); }
  bool done() const { return handle_ && handle_.done(); }

 private:
  Handle handle_;
};

template <typename T>
Task<T> task_internal::Promise<T>::get_return_object() {
  return Task<T>(std::coroutine_handle<Promise>::from_promise(*this));
}
inline Task<void> task_internal::Promise<void>::get_return_object() {
  return Task<void>(std::coroutine_handle<Promise>::from_promise(*this));
}

// A value that is set once and awaited once. Copies share it. Set() may be called from any thread; the waiter
// resumes on `executor`.
template <typename T>
class OneShot {
 public:
  explicit OneShot(Executor& executor) : state_(std::make_shared<State>(executor)) {}

  // The first call wins and returns true.
  bool Set(T value) const {
    {
      absl::MutexLock lock(&state_->mutex);
      if (state_->set) return false;
      state_->set = true;
      state_->value.emplace(std::move(value));
    }
    state_->executor.Post([state = state_] {
      if (std::coroutine_handle<> h = std::exchange(state->waiter, nullptr)) h.resume();
    });
    return true;
  }
  // Set() after `delay`, unless it is set by then.
  void SetAfter(absl::Duration delay, T value) const {
    state_->timer = state_->executor.PostAfter(
        delay, [weak = std::weak_ptr<State>(state_), value = std::move(value)]() mutable {
          if (std::shared_ptr<State> state = weak.lock()) OneShot(std::move(state)).Set(std::move(value));
        });
  }
  bool done() const {
    absl::MutexLock lock(&state_->mutex);
    return state_->set;
  }

  // On the executor only.
  auto Wait() const {
    struct Awaiter {
      std::shared_ptr<State> state;
      explicit Awaiter(std::shared_ptr<State> s) : state(std::move(s)) {}
      Awaiter(const Awaiter&) = delete;
      ~Awaiter() {
        state->waiter = nullptr;
        if (state->timer) state->executor.Cancel(*std::exchange(state->timer, std::nullopt));
      }
      bool await_ready() const {
        absl::MutexLock lock(&state->mutex);
        return state->set;
      }
      void await_suspend(std::coroutine_handle<> h) {
        GDF_CHECK(!state->waiter);
        state->waiter = h;
      }
      T await_resume() {
        absl::MutexLock lock(&state->mutex);
        GDF_CHECK(state->value.has_value());
        T value = *std::move(state->value);
        state->value.reset();
        return value;
      }
    };
    return Awaiter(state_);
  }

 private:
  struct State {
    explicit State(Executor& e) : executor(e) {}
    Executor& executor;
    std::coroutine_handle<> waiter;                 // touched on the executor only
    std::optional<Executor::TimerId> timer;         // touched on the executor only
    absl::Mutex mutex;
    bool set ABSL_GUARDED_BY(mutex) = false;
    std::optional<T> value ABSL_GUARDED_BY(mutex);
  };
  explicit OneShot(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// Resumes after `delay` of the executor's monotonic time.
inline Task<void> Sleep(Executor& executor, absl::Duration delay) {
  OneShot<bool> fired(executor);
  fired.SetAfter(delay, true);
  co_await fired.Wait();
}

// Owns detached tasks: they run until they finish or the scope is destroyed, which destroys their frames.
// On the executor only, destruction included.
class TaskScope {
 public:
  explicit TaskScope(Executor& executor) : executor_(executor) {}
  TaskScope(const TaskScope&) = delete;
  ~TaskScope() { Clear(); }

  // Starts `task` from the executor's queue.
  void Spawn(Task<void> task) {
    auto it = tasks_->emplace(tasks_->end());
    *it = Run(std::weak_ptr(tasks_), it, &executor_, std::move(task));
    executor_.Post([weak = std::weak_ptr(tasks_), it] {
      if (weak.lock()) it->Start();
    });
  }
  // Destroys all tasks. Must not be called from one of them.
  void Clear() {
    Tasks doomed;
    doomed.swap(*tasks_);
    tasks_ = std::make_shared<Tasks>();
  }
  size_t size() const { return tasks_->size(); }

 private:
  using Tasks = std::list<Task<void>>;
  static Task<void> Run(std::weak_ptr<Tasks> tasks, Tasks::iterator self, Executor* executor,
                        Task<void> task) {
    co_await std::move(task);
    // A frame cannot free itself while it runs.
    executor->Post([tasks, self] {
      if (std::shared_ptr<Tasks> owner = tasks.lock()) owner->erase(self);
    });
  }
  Executor& executor_;
  std::shared_ptr<Tasks> tasks_ = std::make_shared<Tasks>();
};

// Runs all tasks side by side and returns their results in order. On the executor only.
template <typename T>
Task<std::vector<T>> WhenAll(Executor& executor, std::vector<Task<T>> tasks) {
  struct Shared {
    std::vector<std::optional<T>> results;
    size_t left;
    OneShot<bool> all;
  };
  auto shared = std::make_shared<Shared>(
      Shared{std::vector<std::optional<T>>(tasks.size()), tasks.size(), OneShot<bool>(executor)});
  struct Runner {
    static Task<void> Run(std::shared_ptr<Shared> shared, size_t i, Task<T> task) {
      T result = co_await std::move(task);
      shared->results[i].emplace(std::move(result));
      if (--shared->left == 0) shared->all.Set(true);
    }
  };
  if (tasks.empty()) co_return std::vector<T>{};
  std::vector<Task<void>> running;
  for (size_t i = 0; i < tasks.size(); ++i) {
    running.push_back(Runner::Run(shared, i, std::move(tasks[i])));
  }
  for (Task<void>& task : running) task.Start();
  co_await shared->all.Wait();
  std::vector<T> results;
  results.reserve(shared->results.size());
  for (std::optional<T>& result : shared->results) results.push_back(*std::move(result));
  co_return results;
}

// An unbounded queue with one waiting consumer. On the executor only. Close() makes Pop return nullopt
// once the queue is empty.
template <typename T>
class Channel {
 public:
  explicit Channel(Executor& executor) : executor_(executor) {}
  void Push(T value) {
    if (closed_) return;
    queue_.push_back(std::move(value));
    Wake();
  }
  void Close() {
    closed_ = true;
    Wake();
  }
  bool empty() const { return queue_.empty(); }
  bool closed() const { return closed_; }
  size_t size() const { return queue_.size(); }

  // The next value; nullopt when closed and empty, or when `timeout` has passed.
  Task<std::optional<T>> Pop(absl::Duration timeout = absl::InfiniteDuration()) {
    if (queue_.empty() && !closed_) {
      OneShot<bool> wake(executor_);
      if (timeout != absl::InfiniteDuration()) wake.SetAfter(timeout, false);
      wake_ = wake;
      co_await wake.Wait();
      wake_.reset();
    }
    if (queue_.empty()) co_return std::nullopt;
    T value = std::move(queue_.front());
    queue_.pop_front();
    co_return value;
  }

 private:
  void Wake() {
    if (wake_) wake_->Set(true);
  }
  Executor& executor_;
  std::deque<T> queue_;
  bool closed_ = false;
  std::optional<OneShot<bool>> wake_;
};

}  // namespace gdf

#endif  // GDF_CORE_BASE_TASK_H_
