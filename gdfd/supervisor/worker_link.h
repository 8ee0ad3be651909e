// The thread that waits for one worker: its messages, its standard error, its end.
#ifndef GDF_GDFD_SUPERVISOR_WORKER_LINK_H_
#define GDF_GDFD_SUPERVISOR_WORKER_LINK_H_

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "core/base/compute_pool.h"
#include "core/base/executor.h"
#include "core/train/message_socket.h"
#include "core/train/worker_session.h"
#include "gdfd/supervisor/child_process.h"
#include "gdfd/supervisor/stderr_log.h"

namespace gdf::supervisor {

// Called on the executor.
class WorkerEvents {
 public:
  virtual ~WorkerEvents() = default;
  virtual void OnMessage(train::Message message) = 0;
  virtual void OnEnd(train::ExitInfo info) = 0;  // once, after the last message
};

// A worker that floods is slowed down: its socket is not read while many of its messages wait for
// the executor.
class WorkerLink {
 public:
  WorkerLink(Executor& executor, std::unique_ptr<ChildProcess> child, std::string label,
             std::weak_ptr<WorkerEvents> events);
  // Ends the worker and waits until it is gone.
  ~WorkerLink();

  // Queues a message. kResourceExhausted when it is too large. Any thread.
  absl::Status Send(train::Message message);

  // Kills the worker; OnEnd will give this reason. The first call counts. Any thread.
  void End(train::ExitInfo::Reason reason, std::string text);

  const ChildProcess& child() const { return *child_; }

 private:
  // Outlives the link in closures that wait on the executor.
  struct Flow {
    std::atomic<int> waiting{0};  // messages handed to the executor and not yet handled
    train::UniqueFd wake;         // eventfd
    void Wake() const;
  };

  void Loop();
  bool PollOnce();
  void ReadSocket();
  void Deliver(std::vector<train::Message> messages);
  void WriteSocket();
  void Finish();

  Executor& executor_;
  const std::unique_ptr<ChildProcess> child_;
  const std::weak_ptr<WorkerEvents> events_;
  const std::shared_ptr<Flow> flow_ = std::make_shared<Flow>();

  absl::Mutex mutex_;
  std::vector<train::OutgoingMessage> outbox_ ABSL_GUARDED_BY(mutex_);
  std::optional<train::ExitInfo> verdict_ ABSL_GUARDED_BY(mutex_);

  // Of the thread.
  train::MessageReader reader_;
  train::MessageWriter writer_;
  StderrLog log_;
  bool socket_open_ = true;

  ThreadPool thread_{1};  // last: joined first
};

}  // namespace gdf::supervisor

#endif  // GDF_GDFD_SUPERVISOR_WORKER_LINK_H_
