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

// Any thread but the executor's may wait here. Must be destroyed on the executor's thread, when
// nobody is waiting. Who waits for something that will not be finished any more is told so: kCancelled
// where the result is a status or has one, else a T{}.
class Bridge {
 public:
  explicit Bridge(Executor& executor)
      : executor_(executor), tasks_(executor), closing_(executor) {}

  // `make` is called on the executor and gives the Task to run there. Blocks until it has finished.
  template <typename T, typename Make>
  T Await(Make make) {
    Pending<T> pending;
    auto answer = std::make_shared<Answer<T>>(pending);
    executor_.Post([this, answer = std::move(answer), make = std::move(make)]() mutable {
      if (!closed_) tasks_.Spawn(Run(std::move(answer), make()));
    });
    pending.done.WaitForNotification();
    return *std::move(pending.result);
  }
  // After `patience` what is awaited is given up, and nothing more is begun. Any thread.
  void CloseAfter(absl::Duration patience) {
    executor_.Post([this, patience] { closing_.Spawn(Close(patience)); });
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
    Pending<T> pending;
    auto answer = std::make_shared<Answer<T>>(pending);
    executor_.Post([answer = std::move(answer), function = std::move(function)]() mutable {
      answer->Set(function());
    });
    pending.done.WaitForNotification();
    return *std::move(pending.result);
  }

 private:
  template <typename T>
  struct Pending {
    absl::Notification done;
    std::optional<T> result;
  };
  // The executor's end of a call: its destruction answers at the latest.
  template <typename T>
  class Answer {
   public:
    explicit Answer(Pending<T>& pending) : pending_(&pending) {}
    Answer(const Answer&) = delete;
    ~Answer() {
      if (pending_ != nullptr) Set(GivenUp());
    }
    void Set(T result) {
      Pending<T>* pending = std::exchange(pending_, nullptr);
      pending->result.emplace(std::move(result));
      pending->done.Notify();
    }

   private:
    static T GivenUp() {
      if constexpr (std::is_constructible_v<T, absl::Status>) {
        return T(absl::CancelledError("gdfd is stopping"));
      } else {
        return T{};
      }
    }
    Pending<T>* pending_;
  };
  template <typename T>
  static Task<void> Run(std::shared_ptr<Answer<T>> answer, Task<T> task) {
    T result = co_await std::move(task);
    answer->Set(std::move(result));
  }
  Task<void> Close(absl::Duration patience) {
    co_await Sleep(executor_, patience);
    closed_ = true;
    tasks_.Clear();
  }

  Executor& executor_;
  bool closed_ = false;  // on the executor
  TaskScope tasks_;
  TaskScope closing_;
};

}  // namespace gdf::services

#endif  // GDF_GDFD_SERVICES_BRIDGE_H_
