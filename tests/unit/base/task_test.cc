#include "core/base/task.h"

#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "core/base/compute_pool.h"

namespace gdf {
namespace {

Task<int> AddLater(Executor& executor, int a, int b, absl::Duration delay) {
  co_await Sleep(executor, delay);
  co_return a + b;
}

Task<void> Store(Task<int> task, int* out) {
  int value = co_await std::move(task);
  *out = value;
}

TEST_CASE("a task resumes after its delay of simulated time") {
  SimExecutor executor;
  TaskScope scope(executor);
  int result = 0;
  scope.Spawn(Store(AddLater(executor, 2, 3, absl::Seconds(5)), &result));
  executor.RunUntilIdle(absl::Seconds(4));
  CHECK(result == 0);
  CHECK(executor.RunUntilIdle());
  CHECK(result == 5);
  CHECK(executor.Monotonic() == absl::Seconds(5));
  CHECK(scope.size() == 0);
}

Task<void> Collect(Executor& executor, std::vector<int>* out) {
  std::vector<Task<int>> tasks;
  for (int i = 0; i < 3; ++i) tasks.push_back(AddLater(executor, i, 10, absl::Seconds(3 - i)));
  std::vector<int> results = co_await WhenAll(executor, std::move(tasks));
  *out = results;
}

TEST_CASE("WhenAll runs side by side and keeps the order") {
  SimExecutor executor;
  TaskScope scope(executor);
  std::vector<int> results;
  scope.Spawn(Collect(executor, &results));
  executor.RunUntilIdle();
  CHECK(results == std::vector<int>{10, 11, 12});
  CHECK(executor.Monotonic() == absl::Seconds(3));
}

struct Witness {
  int* destroyed;
  ~Witness() { ++*destroyed; }
};

Task<void> WaitForever(Executor& executor, int* destroyed, bool* ran) {
  Witness witness{destroyed};
  co_await Sleep(executor, absl::Hours(1));
  *ran = true;
}

TEST_CASE("a cleared scope destroys its suspended frames and nothing of them runs") {
  SimExecutor executor;
  int destroyed = 0;
  bool ran = false;
  {
    TaskScope scope(executor);
    scope.Spawn(WaitForever(executor, &destroyed, &ran));
    executor.RunUntilIdle(absl::Seconds(1));
    CHECK(destroyed == 0);
  }
  CHECK(destroyed == 1);
  CHECK(executor.RunUntilIdle());
  CHECK_FALSE(ran);
}

TEST_CASE("a value set while its resumption is queued reaches no destroyed frame") {
  SimExecutor executor;
  OneShot<int> value(executor);
  int result = 0;
  struct Waiter {
    static Task<void> Run(OneShot<int> value, int* out) { *out = co_await value.Wait(); }
  };
  {
    TaskScope scope(executor);
    scope.Spawn(Waiter::Run(value, &result));
    executor.RunUntilIdle();
    CHECK(value.Set(1));
    CHECK_FALSE(value.Set(2));
  }
  executor.RunUntilIdle();
  CHECK(result == 0);
}

Task<void> Consume(Channel<std::string>* channel, std::vector<std::string>* out) {
  while (true) {
    std::optional<std::string> item = co_await channel->Pop(absl::Seconds(2));
    if (!item) {
      out->push_back(channel->closed() ? "closed" : "timeout");
      if (channel->closed()) co_return;
      continue;
    }
    out->push_back(*item);
  }
}

TEST_CASE("a channel hands over in order, times out, and ends when closed") {
  SimExecutor executor;
  Channel<std::string> channel(executor);
  std::vector<std::string> seen;
  TaskScope scope(executor);
  channel.Push("a");
  scope.Spawn(Consume(&channel, &seen));
  executor.PostAfter(absl::Seconds(1), [&] { channel.Push("b"); });
  executor.PostAfter(absl::Seconds(4), [&] { channel.Close(); });
  executor.RunUntilIdle();
  CHECK(seen == std::vector<std::string>{"a", "b", "timeout", "closed"});
}

TEST_CASE("a loop executor resumes on its own thread after work on a pool") {
  SystemClock clock;
  LoopExecutor executor(clock);
  ThreadPool pool(2);
  TaskScope scope(executor);
  std::thread::id worker, resumed;
  struct Body {
    static Task<void> Run(ComputePool& pool, LoopExecutor& executor, std::thread::id* worker,
                          std::thread::id* resumed) {
      *worker = co_await RunOn(pool, executor, std::this_thread::get_id);
      *resumed = std::this_thread::get_id();
      co_await Sleep(executor, absl::Milliseconds(1));
      executor.Stop();
    }
  };
  scope.Spawn(Body::Run(pool, executor, &worker, &resumed));
  executor.Run();
  CHECK(worker != std::this_thread::get_id());
  CHECK(resumed == std::this_thread::get_id());
}

}  // namespace
}  // namespace gdf
