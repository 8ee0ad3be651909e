// A daemon's executor and one hostile worker on it, for tests.
#ifndef GDF_TESTS_INTEGRATION_SANDBOX_WORLD_H_
#define GDF_TESTS_INTEGRATION_SANDBOX_WORLD_H_

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/base/executor.h"
#include "core/base/task.h"
#include "gdfd/supervisor/worker_process.h"

namespace gdf::supervisor {

// Whatever is awaited here is an event that must come; a test that waits longer has failed.
inline constexpr absl::Duration kDeadline = absl::Seconds(60);

struct World {
  SystemClock clock;
  LoopExecutor executor{clock};

  template <typename T>
  T Await(Task<T> task) {
    std::optional<T> result;
    TaskScope scope(executor);
    scope.Spawn(Store(&executor, std::move(task), &result));
    const Executor::TimerId timer = executor.PostAfter(kDeadline, [this] { executor.Stop(); });
    executor.Run();
    executor.Cancel(timer);
    REQUIRE(result.has_value());
    return *std::move(result);
  }

  std::unique_ptr<WorkerProcess> Start(WorkerOptions options = {}) {
    options.program = GDF_HOSTILE_WORKER;
    options.label = "hostile";
    absl::StatusOr<std::unique_ptr<WorkerProcess>> worker =
        WorkerProcess::Start(executor, std::move(options));
    INFO(worker.status());
    REQUIRE(worker.ok());
    return *std::move(worker);
  }

  // Started and loaded: a model of six parameters.
  std::unique_ptr<WorkerProcess> StartLoaded(WorkerOptions options = {}) {
    std::unique_ptr<WorkerProcess> worker = Start(std::move(options));
    const absl::StatusOr<train::LoadResult> loaded = Await(worker->Load({}));
    INFO(loaded.status());
    REQUIRE(loaded.ok());
    REQUIRE(loaded->layout.num_params() == 6);
    return worker;
  }

  // Asks for the worker's state and takes it without a look.
  absl::Status Save(WorkerProcess& worker) {
    struct Sink {
      static Task<absl::Status> Take(Buffer) { co_return absl::OkStatus(); }
    };
    return Await(worker.Save(&Sink::Take));
  }

  // What came of an order, see hostile_worker.cc.
  std::string Order(WorkerProcess& worker, const std::string& order) {
    train::GenerateRequest request;
    request.prompt = order;
    const absl::StatusOr<train::GenerateResult> result = Await(worker.Generate(std::move(request)));
    INFO(order << ": " << result.status());
    REQUIRE(result.ok());
    return result->text;
  }

 private:
  template <typename T>
  static Task<void> Store(LoopExecutor* executor, Task<T> task, std::optional<T>* out) {
    T value = co_await std::move(task);
    out->emplace(std::move(value));
    executor->Stop();
  }
};

}  // namespace gdf::supervisor

#endif  // GDF_TESTS_INTEGRATION_SANDBOX_WORLD_H_
