// Requests to one worker and their replies: numbers them, matches them, ends a worker that is
// silent or says what the protocol does not allow.
#ifndef GDF_GDFD_SUPERVISOR_WORKER_CALLS_H_
#define GDF_GDFD_SUPERVISOR_WORKER_CALLS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/task.h"
#include "core/train/protocol.h"
#include "core/train/worker_session.h"
#include "gdfd/supervisor/sandbox/sandbox.h"
#include "gdfd/supervisor/worker_link.h"

namespace gdf::supervisor {

// On the executor only.
class WorkerCalls final : public WorkerEvents, public std::enable_shared_from_this<WorkerCalls> {
 public:
  // Takes the body of an event; an error ends the worker.
  using OnEvent = std::function<absl::Status(const nlohmann::json&)>;

  static std::shared_ptr<WorkerCalls> Create(Executor& executor) {
    return std::shared_ptr<WorkerCalls>(new WorkerCalls(executor));
  }
  // Before anything else. The link must outlive every call.
  void Attach(WorkerLink* link, absl::Duration start_timeout);

  // Sends `message` as request `op` and waits for its reply. The error of the reply; when the worker
  // ends first, kResourceExhausted if it ran out of memory, else kUnavailable. It is ended as hung
  // when it says nothing for `silence`.
  Task<absl::StatusOr<train::Message>> Call(const char* op, train::Message message,
                                            absl::Duration silence, OnEvent on_event = {});

  // Ends the worker because of what it said; gives the kUnavailable that calls end with.
  absl::Status Distrust(const absl::Status& problem);

  // Waits for the worker's greeting. kUnavailable when it ends before.
  Task<absl::StatusOr<SandboxReport>> Ready();
  Task<train::ExitInfo> WaitForExit();

  void OnMessage(train::Message message) override;
  void OnEnd(train::ExitInfo info) override;

 private:
  struct Pending {
    explicit Pending(Executor& executor) : done(executor) {}
    OneShot<absl::StatusOr<train::Message>> done;
    OnEvent on_event;
    std::string op;
    absl::Duration silence;
    Executor::TimerId timer = 0;
  };

  explicit WorkerCalls(Executor& executor) : executor_(executor) {}
  absl::Status EndedStatus() const;
  // An error of the worker's; one about memory says how much it may have.
  absl::Status WithLimit(absl::Status error) const;
  void Arm(uint64_t id, Pending& pending);
  void Forget(uint64_t id);
  absl::Status Greet(const nlohmann::json& hello);
  absl::Status Dispatch(train::Message message);

  Executor& executor_;
  WorkerLink* link_ = nullptr;
  uint64_t last_id_ = 0;
  std::map<uint64_t, Pending> pending_;
  std::optional<SandboxReport> sandbox_;
  std::optional<train::ExitInfo> ended_;
  Executor::TimerId start_timer_ = 0;
  std::vector<OneShot<bool>> ready_waiters_;
  std::vector<OneShot<bool>> exit_waiters_;
};

}  // namespace gdf::supervisor

#endif  // GDF_GDFD_SUPERVISOR_WORKER_CALLS_H_
