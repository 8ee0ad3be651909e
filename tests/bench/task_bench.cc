// What protocol code as coroutines costs: task_bench [N]. Figures for docs/adr/0001-protocol-coroutines.md.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "core/base/clock.h"
#include "core/base/task.h"

namespace {

size_t allocations = 0;
size_t allocated_bytes = 0;

}  // namespace

void* operator new(size_t bytes) {
  ++allocations;
  allocated_bytes += bytes;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace gdf {
namespace {

Task<int> Leaf(int value) { co_return value + 1; }

Task<void> Nested(int times, int* sum) {
  for (int i = 0; i < times; ++i) *sum += co_await Leaf(i);
}

Task<void> Turns(Executor& executor, int times) {
  for (int i = 0; i < times; ++i) {
    OneShot<bool> turn(executor);
    turn.Set(true);
    co_await turn.Wait();
    OneShot<bool> later(executor);
    executor.Post([later] { later.Set(true); });
    co_await later.Wait();
  }
}

Task<void> Parked(Executor& executor) { co_await Sleep(executor, absl::Hours(1)); }

template <typename Body>
void Measure(const char* what, int times, Body body) {
  const size_t count = allocations;
  const size_t bytes = allocated_bytes;
  const SystemClock clock;
  const absl::Duration begin = clock.Monotonic();
  body();
  const double seconds = absl::ToDoubleSeconds(clock.Monotonic() - begin);
  std::printf("%-44s %8.1f ns  %5.1f allocations  %6.0f bytes\n", what, seconds * 1e9 / times,
              static_cast<double>(allocations - count) / times, static_cast<double>(allocated_bytes - bytes) / times);
}

int Main(int times) {
  SimExecutor executor;
  {
    TaskScope scope(executor);
    int sum = 0;
    Measure("await a task that does not suspend", times, [&] {
      scope.Spawn(Nested(times, &sum));
      executor.RunUntilIdle();
    });
  }
  {
    TaskScope scope(executor);
    Measure("suspend, be posted, resume", 2 * times, [&] {
      scope.Spawn(Turns(executor, times));
      executor.RunUntilIdle();
    });
  }
  {
    TaskScope scope(executor);
    Measure("spawn a task that sleeps (all held at once)", times, [&] {
      for (int i = 0; i < times; ++i) scope.Spawn(Parked(executor));
      executor.RunUntil([] { return false; }, absl::Minutes(1));
    });
  }
  return 0;
}

}  // namespace
}  // namespace gdf

int main(int argc, char** argv) { return gdf::Main(argc > 1 ? std::atoi(argv[1]) : 1'000'000); }
