#include "gdfd/supervisor/turn.h"

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <vector>

#include "core/base/executor.h"

namespace gdf::supervisor {
namespace {

using Order = std::vector<int>;

// Has its turn for a second of simulated time.
Task<void> Work(Executor& executor, std::shared_ptr<TurnQueue> queue, int name, Order* order) {
  Turn turn(std::move(queue));
  co_await turn.Wait();
  order->push_back(name);
  co_await Sleep(executor, absl::Seconds(1));
}

struct World {
  SimExecutor executor;
  std::shared_ptr<TurnQueue> queue = std::make_shared<TurnQueue>(executor);
  Order order;
  // Spawn starts a task from the executor's queue: one step.
  std::unique_ptr<TaskScope> Begin(int name) {
    auto scope = std::make_unique<TaskScope>(executor);
    scope->Spawn(Work(executor, queue, name, &order));
    executor.RunUntilIdle(absl::ZeroDuration());
    return scope;
  }
};

TEST_CASE("turns are had one after the other, in the order of asking") {
  World world;
  const auto first = world.Begin(1), second = world.Begin(2), third = world.Begin(3);
  CHECK(world.order == Order{1});
  world.executor.RunUntilIdle(absl::Milliseconds(1500));
  CHECK(world.order == Order{1, 2});
  world.executor.RunUntilIdle();
  CHECK(world.order == Order{1, 2, 3});
  CHECK(world.executor.Monotonic() == absl::Seconds(3));
  const auto later = world.Begin(4);  // nobody is left to wait for
  CHECK(world.order == Order{1, 2, 3, 4});
}

TEST_CASE("who goes away while waiting is passed over") {
  World world;
  const auto first = world.Begin(1);
  auto second = world.Begin(2);
  const auto third = world.Begin(3);
  second.reset();
  world.executor.RunUntilIdle();
  CHECK(world.order == Order{1, 3});
}

TEST_CASE("who is destroyed in the middle of its turn hands it on") {
  World world;
  auto first = world.Begin(1);
  const auto second = world.Begin(2);
  first.reset();
  world.executor.RunUntilIdle();
  CHECK(world.order == Order{1, 2});
}

TEST_CASE("who is destroyed between the grant and its resumption hands the turn on") {
  World world;
  auto first = world.Begin(1);
  auto second = world.Begin(2);
  const auto third = world.Begin(3);
  first.reset();   // grants the second's, which resumes from the executor's queue
  second.reset();  // before that runs
  world.executor.RunUntilIdle();
  CHECK(world.order == Order{1, 3});
}

TEST_CASE("turns outlive whoever made the queue") {
  World world;
  const auto first = world.Begin(1), second = world.Begin(2);
  world.queue.reset();
  world.executor.RunUntilIdle();
  CHECK(world.order == Order{1, 2});
}

}  // namespace
}  // namespace gdf::supervisor
