#include "gdfd/supervisor/worker_calls.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/train/messages.h"

namespace gdf::supervisor {
namespace {

using train::ExitInfo;
using train::FieldReader;
using train::Message;

constexpr size_t kMaxWalls = 32;
constexpr size_t kMaxWallBytes = 512;

std::vector<std::string> ReadWalls(FieldReader& fields, const char* name) {
  std::vector<std::string> walls;
  for (const nlohmann::json& wall : fields.Array(name, kMaxWalls)) {
    if (wall.is_string()) walls.push_back(wall.get<std::string>().substr(0, kMaxWallBytes));
  }
  return walls;
}

}  // namespace

void WorkerCalls::Attach(WorkerLink* link, absl::Duration start_timeout) {
  link_ = link;
  start_timer_ = executor_.PostAfter(start_timeout, [weak = weak_from_this(), start_timeout] {
    const std::shared_ptr<WorkerCalls> self = weak.lock();
    if (self == nullptr || self->sandbox_ || self->ended_) return;
    self->link_->End(ExitInfo::Reason::kHung,
                     absl::StrCat("the worker was not ready within ", HumanDuration(start_timeout),
                                  " and was ended"));
  });
}

// What ran out of memory once does so again.
absl::Status WorkerCalls::EndedStatus() const {
  if (ended_->reason == ExitInfo::Reason::kOutOfMemory) {
    return absl::ResourceExhaustedError(ended_->text);
  }
  return absl::UnavailableError(ended_->text);
}

absl::Status WorkerCalls::Distrust(const absl::Status& problem) {
  const std::string text =
      absl::StrCat("the worker broke the protocol and was ended: ", problem.message());
  link_->End(ExitInfo::Reason::kBrokeProtocol, text);
  return absl::UnavailableError(text);
}

void WorkerCalls::Arm(uint64_t id, Pending& pending) {
  if (pending.timer != 0) executor_.Cancel(pending.timer);
  pending.timer = executor_.PostAfter(pending.silence, [weak = weak_from_this(), id] {
    const std::shared_ptr<WorkerCalls> self = weak.lock();
    if (self == nullptr) return;
    const auto it = self->pending_.find(id);
    if (it == self->pending_.end()) return;
    self->link_->End(ExitInfo::Reason::kHung,
                     absl::StrCat("the worker was silent for ", HumanDuration(it->second.silence),
                                  " after '", it->second.op, "' and was ended"));
  });
}

void WorkerCalls::Forget(uint64_t id) {
  const auto it = pending_.find(id);
  if (it == pending_.end()) return;
  executor_.Cancel(it->second.timer);
  pending_.erase(it);
}

Task<absl::StatusOr<Message>> WorkerCalls::Call(const char* op, Message message,
                                                absl::Duration silence, OnEvent on_event) {
  if (ended_) co_return EndedStatus();
  const uint64_t id = ++last_id_;
  message.body["id"] = id;
  message.body["op"] = op;
  GDF_CO_RETURN_IF_ERROR(link_->Send(std::move(message)));
  Pending& pending = pending_.emplace(id, executor_).first->second;
  pending.op = op;
  pending.silence = silence;
  pending.on_event = std::move(on_event);
  Arm(id, pending);
  // The reply of a call that nobody waits for any more is dropped when it comes.
  const std::shared_ptr<WorkerCalls> self = shared_from_this();
  const absl::Cleanup forget = [self, id] { self->Forget(id); };
  const OneShot<absl::StatusOr<Message>> done = pending.done;
  absl::StatusOr<Message> reply = co_await done.Wait();
  co_return reply;
}

void WorkerCalls::OnMessage(Message message) {
  if (ended_) return;
  if (const absl::Status status = Dispatch(std::move(message)); !status.ok()) {
    Distrust(status).IgnoreError();
  }
}

absl::Status WorkerCalls::Dispatch(Message message) {
  if (!sandbox_) return Greet(message.body);
  FieldReader fields(message.body);
  const auto id = static_cast<uint64_t>(fields.Int("id", 1, static_cast<int64_t>(last_id_)));
  GDF_RETURN_IF_ERROR(fields.status());
  const auto it = pending_.find(id);
  if (it == pending_.end()) return absl::OkStatus();
  Pending& pending = it->second;
  if (fields.Has("event")) {
    Arm(id, pending);
    if (!pending.on_event) return absl::InvalidArgumentError("an event where none is expected");
    const OnEvent on_event = pending.on_event;  // it may end the call
    return on_event(message.body);
  }
  if (fields.Has("error")) {
    pending.done.Set(WithLimit(train::StatusFromJson(message.body["error"])));
  } else {
    pending.done.Set(std::move(message));
  }
  Forget(id);
  return absl::OkStatus();
}

absl::Status WorkerCalls::WithLimit(absl::Status error) const {
  const uint64_t limit = link_->child().memory_bytes();
  if (!absl::IsResourceExhausted(error) || limit == 0) return error;
  return absl::ResourceExhaustedError(absl::StrCat(
      "the worker ran out of memory: its limit is ", HumanBytes(limit), ": ", error.message()));
}

absl::Status WorkerCalls::Greet(const nlohmann::json& hello) {
  FieldReader fields(hello);
  fields.Int("hello", train::kProtocolVersion, train::kProtocolVersion);
  SandboxReport report;
  report.in_force = ReadWalls(fields, "in_force");
  report.missing = ReadWalls(fields, "missing");
  GDF_RETURN_IF_ERROR(fields.status());
  // Its word is not enough: what decides is in /proc.
  GDF_RETURN_IF_ERROR(link_->child().CheckConfined());
  const ChildProcess& child = link_->child();
  (child.has_cgroup() ? report.in_force : report.missing).push_back(child.memory_limit());
  sandbox_ = std::move(report);
  executor_.Cancel(start_timer_);
  for (const OneShot<bool>& waiter : std::exchange(ready_waiters_, {})) waiter.Set(true);
  return absl::OkStatus();
}

Task<absl::StatusOr<SandboxReport>> WorkerCalls::Ready() {
  if (!sandbox_ && !ended_) {
    const OneShot<bool> waiter(executor_);
    ready_waiters_.push_back(waiter);
    co_await waiter.Wait();
  }
  if (!sandbox_) co_return EndedStatus();
  co_return *sandbox_;
}

Task<ExitInfo> WorkerCalls::WaitForExit() {
  if (!ended_) {
    const OneShot<bool> waiter(executor_);
    exit_waiters_.push_back(waiter);
    co_await waiter.Wait();
  }
  co_return *ended_;
}

void WorkerCalls::OnEnd(ExitInfo info) {
  ended_ = std::move(info);
  executor_.Cancel(start_timer_);
  for (auto& [id, pending] : pending_) {
    executor_.Cancel(pending.timer);
    pending.done.Set(EndedStatus());
  }
  pending_.clear();
  for (const OneShot<bool>& waiter : std::exchange(ready_waiters_, {})) waiter.Set(true);
  for (const OneShot<bool>& waiter : std::exchange(exit_waiters_, {})) waiter.Set(true);
}

}  // namespace gdf::supervisor
