// From gRPC's threads to the protocol thread and back: runs a coroutine on the executor and waits
// for its result.
#ifndef GDF_GDFD_SERVICES_BRIDGE_H_
#define GDF_GDFD_SERVICES_BRIDGE_H_

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "core/base/task.h"

namespace gdf::services {

// Any thread but the executor's may call Await. Must be destroyed on the executor's thread, when
// nobody is waiting.
class Bridge {
 public:
  explicit Bridge(Executor& executor) : executor_(executor), tasks_(executor) {}

  // `make` is called on the executor and gives the Task to run there. Blocks until it has finished.
  template <typename T, typename Make>
  T Await(Make make) {
    auto call = std::make_shared<Pending<T>>();
    executor_.Post(
        [this, call, make = std::move(make)]() mutable { tasks_.Spawn(Run(call, make())); });
    call->done.WaitForNotification();
    return *std::move(call->result);
  }
  // Starts a Task<void> there and does not wait. It ends with what is returned at the latest, which
  // must be let go on another thread than the executor's, before the bridge.
  template <typename Make>
  std::shared_ptr<TaskScope> Start(Make make) {
    TaskScope* scope = OnExecutor([this, &make] {
      auto* started = new TaskScope(executor_);
      started->Spawn(make());
      return started;
    });
    return std::shared_ptr<TaskScope>(scope, [this](TaskScope* ended) {
      OnExecutor([ended] {
        delete ended;
        return true;
      });
    });
  }
  // Runs a plain function there and blocks until it has returned.
  template <typename Function, typename T = std::invoke_result_t<Function>>
  T OnExecutor(Function function) {
    auto call = std::make_shared<Pending<T>>();
    executor_.Post([call, function = std::move(function)]() mutable {
      call->result.emplace(function());
      call->done.Notify();
    });
    call->done.WaitForNotification();
    return *std::move(call->result);
  }

 private:
  template <typename T>
  struct Pending {
    absl::Notification done;
    std::optional<T> result;
  };
  template <typename T>
  static Task<void> Run(std::shared_ptr<Pending<T>> call, Task<T> task) {
    T result = co_await std::move(task);
    call->result.emplace(std::move(result));
    call->done.Notify();
  }
  Executor& executor_;
  TaskScope tasks_;
};

}  // namespace gdf::services

#endif  // GDF_GDFD_SERVICES_BRIDGE_H_
