#include "gdfd/supervisor/worker_link.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace gdf::supervisor {
namespace {

using train::ExitInfo;

constexpr int kMaxWaiting = 256;
// A process that closed its socket is ending; one that does not end is ended.
constexpr int kGraceMillis = 1000;

void SetNonBlocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

void WorkerLink::Flow::Wake() const {
  const uint64_t one = 1;
  // A full counter wakes as well.
  [[maybe_unused]] const ssize_t wrote = write(wake.get(), &one, sizeof(one));
}

WorkerLink::WorkerLink(Executor& executor, std::unique_ptr<ChildProcess> child, std::string label,
                       std::weak_ptr<WorkerEvents> events)
    : executor_(executor),
      child_(std::move(child)),
      events_(std::move(events)),
      log_(std::move(label)) {
  flow_->wake.Reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  SetNonBlocking(child_->stderr_fd());
  thread_.Submit([this] { Loop(); });
}

WorkerLink::~WorkerLink() { End(ExitInfo::Reason::kStopped, "the worker was stopped"); }

absl::Status WorkerLink::Send(train::Message message) {
  GDF_ASSIGN_OR_RETURN(train::OutgoingMessage outgoing, train::Encode(std::move(message)));
  {
    absl::MutexLock lock(&mutex_);
    outbox_.push_back(std::move(outgoing));
  }
  flow_->Wake();
  return absl::OkStatus();
}

void WorkerLink::End(ExitInfo::Reason reason, std::string text) {
  {
    absl::MutexLock lock(&mutex_);
    if (!verdict_) verdict_ = ExitInfo{reason, 0, 0, std::move(text)};
  }
  child_->Kill();
}

void WorkerLink::Loop() {
  while (PollOnce()) {
  }
  Finish();
}

bool WorkerLink::PollOnce() {
  short socket_events = 0;
  if (socket_open_) {
    if (flow_->waiting < kMaxWaiting) socket_events |= POLLIN;
    if (!writer_.empty()) socket_events |= POLLOUT;
  }
  pollfd fds[] = {{child_->pid_fd(), POLLIN, 0},
                  {flow_->wake.get(), POLLIN, 0},
                  {child_->stderr_fd(), POLLIN, 0},
                  {socket_events != 0 ? child_->socket_fd() : -1, socket_events, 0}};
  if (log_.closed()) fds[2].fd = -1;
  const int ready = poll(fds, std::size(fds), socket_open_ ? -1 : kGraceMillis);
  if (ready == 0) {
    End(ExitInfo::Reason::kBrokeProtocol,
        "the worker closed its socket, went on, and was ended");
  }
  if (ready <= 0) return true;
  if (fds[1].revents != 0) {
    uint64_t count;
    [[maybe_unused]] const ssize_t got = read(flow_->wake.get(), &count, sizeof(count));
  }
  if (fds[2].revents != 0) log_.ReadAvailable(child_->stderr_fd());
  if (fds[3].revents != 0) ReadSocket();
  WriteSocket();
  return fds[0].revents == 0;
}

void WorkerLink::ReadSocket() {
  std::vector<train::Message> messages;
  const absl::Status status = reader_.ReadAvailable(child_->socket_fd(), &messages);
  Deliver(std::move(messages));
  if (status.ok()) return;
  socket_open_ = false;
  if (!absl::IsUnavailable(status)) {
    End(ExitInfo::Reason::kBrokeProtocol,
        std::string(status.message().data(), status.message().size()));
  }
}

void WorkerLink::Deliver(std::vector<train::Message> messages) {
  for (train::Message& message : messages) {
    ++flow_->waiting;
    executor_.Post([events = events_, flow = flow_, message = std::move(message)]() mutable {
      if (std::shared_ptr<WorkerEvents> target = events.lock()) {
        target->OnMessage(std::move(message));
      }
      if (flow->waiting-- == kMaxWaiting) flow->Wake();
    });
  }
}

void WorkerLink::WriteSocket() {
  {
    absl::MutexLock lock(&mutex_);
    for (train::OutgoingMessage& message : outbox_) writer_.Push(std::move(message));
    outbox_.clear();
  }
  if (!socket_open_ || writer_.empty()) return;
  // When the other end has closed, reading reports it; nothing more can be sent.
  if (!writer_.WriteAvailable(child_->socket_fd()).ok()) writer_ = train::MessageWriter();
}

void WorkerLink::Finish() {
  // What it said before it ended: a bounded number of messages, as one socket buffer holds.
  while (socket_open_ && flow_->waiting < kMaxWaiting) ReadSocket();
  while (log_.ReadAvailable(child_->stderr_fd())) {
  }
  log_.Finish();
  ExitInfo info = child_->Reap();
  {
    absl::MutexLock lock(&mutex_);
    if (verdict_) {
      verdict_->signal = info.signal;
      info = *verdict_;
    } else if (!log_.last_line().empty()) {
      absl::StrAppend(&info.text, "; its last line: ", log_.last_line());
    }
  }
  executor_.Post([events = events_, info = std::move(info)]() mutable {
    if (std::shared_ptr<WorkerEvents> target = events.lock()) target->OnEnd(std::move(info));
  });
}

}  // namespace gdf::supervisor
