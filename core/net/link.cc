#include "core/net/link.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/text.h"

namespace gdf::net {
namespace {

constexpr size_t kMaxStreams = 1024;  // of a connection
constexpr size_t kMaxWindow = size_t{1} << 30;
constexpr uint32_t kLastStream = std::numeric_limits<uint32_t>::max() - 2;

absl::Status Cancelled(absl::Status why) {
  return why.ok() ? absl::CancelledError("the stream was cancelled") : why;
}

class LinkStream final : public Stream {
 public:
  explicit LinkStream(std::shared_ptr<StreamState> state) : state_(std::move(state)) {}
  ~LinkStream() override { Cancel(absl::CancelledError("the stream's owner has gone")); }
  NodeId peer() const override { return state_->peer; }
  Task<absl::Status> Send(Buffer message) override { return SendOn(state_, std::move(message)); }
  Task<absl::StatusOr<std::optional<Buffer>>> Receive(absl::Duration timeout) override {
    return ReceiveOn(state_, timeout);
  }
  void Finish() override;
  void Cancel(absl::Status why) override;

 private:
  static Task<absl::Status> SendOn(std::shared_ptr<StreamState> s, Buffer message);
  static Task<absl::StatusOr<std::optional<Buffer>>> ReceiveOn(std::shared_ptr<StreamState> s,
                                                               absl::Duration timeout);
  static void GrantCredit(StreamState& s);
  const std::shared_ptr<StreamState> state_;
};

Task<absl::Status> LinkStream::SendOn(std::shared_ptr<StreamState> s, Buffer message) {
  if (message.size() > kMaxMessageBytes) {
    co_return absl::InvalidArgumentError(absl::StrCat("a message of ", message.size(),
                                                      " bytes: at most ", kMaxMessageBytes,
                                                      " are allowed; send it in parts"));
  }
  if (s->finished) co_return absl::FailedPreconditionError("Send after Finish");
  const size_t cost = WindowCost(message.size());
  while (s->send_end.ok() && s->send_window < cost) {
    OneShot<bool> wake(*s->executor);
    s->send_wake = wake;
    co_await wake.Wait();
    s->send_wake.reset();
  }
  if (!s->send_end.ok()) co_return s->send_end;
  const std::shared_ptr<Link> link = s->link.lock();
  GDF_CHECK(link != nullptr);  // a link ends its streams before it goes
  s->send_window -= cost;
  link->connection().Send(
      {.type = FrameType::kData, .stream = s->id, .arg = 0, .payload = std::move(message)});
  co_return absl::OkStatus();
}

Task<absl::StatusOr<std::optional<Buffer>>> LinkStream::ReceiveOn(std::shared_ptr<StreamState> s,
                                                                  absl::Duration timeout) {
  if (s->inbox.empty() && !s->peer_finished && s->receive_end.ok()) {
    OneShot<bool> wake(*s->executor);
    if (timeout != absl::InfiniteDuration()) wake.SetAfter(timeout, false);
    s->receive_wake = wake;
    co_await wake.Wait();
    s->receive_wake.reset();
  }
  if (!s->receive_end.ok()) co_return s->receive_end;
  if (!s->inbox.empty()) {
    Buffer message = std::move(s->inbox.front());
    s->inbox.pop_front();
    s->receive_target = s->full_target;
    GrantCredit(*s);
    co_return std::optional<Buffer>(std::move(message));
  }
  if (s->peer_finished) co_return std::optional<Buffer>();
  co_return absl::DeadlineExceededError(absl::StrCat("nothing received from node ", s->peer.Short(),
                                                     " within ", HumanDuration(timeout)));
}

// Keeps window + unread messages at the target. Half-window steps keep credit frames few; an empty
// inbox gives everything, since the sender may wait for room for one large message.
void LinkStream::GrantCredit(StreamState& s) {
  const std::shared_ptr<Link> link = s.link.lock();
  if (!link || s.peer_finished || !s.receive_end.ok()) return;
  size_t held = s.receive_window;
  for (const Buffer& message : s.inbox) held += WindowCost(message.size());
  if (held >= s.receive_target) return;
  const size_t credit = s.receive_target - held;
  if (!s.inbox.empty() && credit < s.receive_target / 2) return;
  s.receive_window += credit;
  link->connection().Send({.type = FrameType::kWindow,
                           .stream = s.id,
                           .arg = static_cast<uint32_t>(credit),
                           .payload = {}});
}

void LinkStream::Finish() {
  if (state_->finished || !state_->send_end.ok()) return;
  state_->finished = true;
  const std::shared_ptr<Link> link = state_->link.lock();
  if (!link) return;
  link->connection().Send(
      {.type = FrameType::kFinish, .stream = state_->id, .arg = 0, .payload = {}});
  if (state_->over()) link->Forget(state_->id);
}

void LinkStream::Cancel(absl::Status why) {
  if (state_->over()) {
    state_->inbox.clear();
    return;
  }
  why = Cancelled(std::move(why));
  if (const std::shared_ptr<Link> link = state_->link.lock()) {
    link->connection().Send(StatusFrame(FrameType::kReset, state_->id, why));
    link->Forget(state_->id);
  }
  state_->inbox.clear();
  state_->receive_end = why;
  state_->send_end = why;
  state_->Wake();
}

}  // namespace

void StreamState::Wake() {
  if (receive_wake) receive_wake->Set(true);
  if (send_wake) send_wake->Set(true);
}

void StreamState::End(const absl::Status& why) {
  if (send_end.ok()) send_end = why;
  if (!peer_finished && receive_end.ok()) {
    receive_end = why;
    inbox.clear();
  }
  Wake();
}

Link::Link(Executor& executor, std::shared_ptr<Connection> connection, Hello hello, Purpose purpose,
           size_t bulk_window, std::function<void(Link&)> on_stream_over)
    : executor_(executor),
      connection_(std::move(connection)),
      incarnation_(hello.incarnation),
      purpose_(purpose),
      bulk_window_(std::max(bulk_window, WindowCost(kMaxMessageBytes))),
      on_stream_over_(std::move(on_stream_over)),
      next_stream_(connection_->dialled() ? 1 : 2),
      idle_since_(executor.clock().Monotonic()) {}

bool Link::usable() const {
  return !draining_ && !peer_drains_ && next_stream_ < kLastStream && streams_.size() < kMaxStreams;
}

std::shared_ptr<StreamState> Link::Add(uint32_t id, bool bulk) {
  auto state = std::make_shared<StreamState>();
  state->executor = &executor_;
  state->link = weak_from_this();
  state->peer = peer();
  state->id = id;
  if (bulk) state->full_target = bulk_window_;
  streams_.emplace(id, state);
  return state;
}

std::unique_ptr<Stream> Link::Open(const std::string& method, Priority priority) {
  const uint32_t id = std::exchange(next_stream_, next_stream_ + 2);
  auto state = Add(id, priority == Priority::kBulk);
  connection_->Send({.type = FrameType::kOpen,
                     .stream = id,
                     .arg = static_cast<uint32_t>(priority),
                     .payload = Buffer(method)});
  return std::make_unique<LinkStream>(std::move(state));
}

absl::Status Link::CheckOpen(const Frame& open) const {
  const uint32_t parity = connection_->dialled() ? 0 : 1;
  if (open.stream % 2 != parity || open.stream <= last_peer_stream_) {
    return absl::InvalidArgumentError(
        absl::StrCat("opened stream ", open.stream, " after ", last_peer_stream_));
  }
  return absl::OkStatus();
}

std::unique_ptr<Stream> Link::Accept(const Frame& open, const MethodOptions& options) {
  last_peer_stream_ = open.stream;
  auto state = Add(open.stream, open.arg == static_cast<uint32_t>(Priority::kBulk));
  state->max_message_bytes = options.max_message_bytes;
  return std::make_unique<LinkStream>(std::move(state));
}

void Link::Refuse(uint32_t stream, const absl::Status& why) {
  last_peer_stream_ = stream;
  connection_->Send(StatusFrame(FrameType::kReset, stream, why));
}

absl::Status Link::OnStreamFrame(Frame frame) {
  const auto it = streams_.find(frame.stream);
  if (it == streams_.end()) return absl::OkStatus();  // it ended here; the peer does not know yet
  const std::shared_ptr<StreamState> stream = it->second;
  switch (frame.type) {
    case FrameType::kData:
      if (absl::Status status = OnData(*stream, std::move(frame.payload)); !status.ok())
        return status;
      break;
    case FrameType::kWindow:
      if (frame.arg > kMaxWindow - std::min(stream->send_window, kMaxWindow)) {
        return absl::InvalidArgumentError(
            absl::StrCat("a window over ", kMaxWindow, " bytes on stream ", frame.stream));
      }
      stream->send_window += frame.arg;
      if (stream->send_wake) stream->send_wake->Set(true);
      break;
    case FrameType::kFinish:
      stream->peer_finished = true;
      if (stream->receive_wake) stream->receive_wake->Set(true);
      break;
    case FrameType::kReset:
      stream->End(DecodeStatus(frame));
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("a frame of type ", static_cast<int>(frame.type), " on a stream"));
  }
  if (stream->over()) Forget(stream->id);
  return absl::OkStatus();
}

absl::Status Link::OnData(StreamState& stream, Buffer message) {
  const size_t cost = WindowCost(message.size());
  if (cost > stream.receive_window || stream.peer_finished) {
    return absl::InvalidArgumentError(
        absl::StrCat("sent beyond the window or the end of stream ", stream.id));
  }
  stream.receive_window -= cost;
  if (message.size() > stream.max_message_bytes) {
    const absl::Status why = absl::InvalidArgumentError(
        absl::StrCat("a message of ", message.size(), " bytes: this method takes at most ",
                     stream.max_message_bytes));
    connection_->Send(StatusFrame(FrameType::kReset, stream.id, why));
    stream.End(why);
    return absl::OkStatus();
  }
  stream.inbox.push_back(std::move(message));
  if (stream.receive_wake) stream.receive_wake->Set(true);
  return absl::OkStatus();
}

void Link::Drain() {
  if (std::exchange(draining_, true)) return;
  connection_->Send({.type = FrameType::kDrain, .stream = 0, .arg = 0, .payload = {}});
}

void Link::EndStreams(const absl::Status& why) {
  for (const auto& [id, stream] : std::exchange(streams_, {})) stream->End(why);
}

void Link::Forget(uint32_t stream) {
  if (streams_.erase(stream) == 0) return;
  if (streams_.empty()) idle_since_ = executor_.clock().Monotonic();
  on_stream_over_(*this);
}

}  // namespace gdf::net
