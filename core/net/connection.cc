#include "core/net/connection.h"

#include <algorithm>
#include <asio/post.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/net/endpoint.h"
#include "core/net/tcp_info.h"

namespace gdf::net {
namespace {

// After this much the other connections get their turn.
constexpr size_t kTurnBytes = 1 << 19;
// Reading stops while the executor is this far behind: a flooding peer costs no more memory.
constexpr size_t kMaxUndelivered = 16 << 20;
constexpr size_t kFrameOverhead = 128;  // of a frame in memory
// Pongs, resets and credit for a peer that asks but does not read.
constexpr size_t kMaxUrgentFrames = 8192;
constexpr absl::Duration kCloseGrace = absl::Milliseconds(500);

absl::Status Lost(const std::string& where, const std::string& what) {
  return absl::UnavailableError(absl::StrCat(where, ": ", what));
}

}  // namespace

Connection::Connection(std::shared_ptr<IoWorld> world, asio::ip::tcp::socket socket,
                       std::optional<NodeId> expected, std::optional<NodeId> via)
    : world_(std::move(world)),
      dialled_(expected.has_value()),
      expected_(expected),
      via_(via),
      socket_(std::move(socket)),
      channel_(world_->tls, socket_.native_handle(), dialled_),
      timer_(world_->io),
      read_throttle_(world_->io),
      write_throttle_(world_->io) {
  std::error_code ec;
  remote_ = socket_.remote_endpoint(ec);
  socket_.non_blocking(true, ec);
  TuneSocket(socket_.native_handle(), world_->options.congestion_control);
  absl::MutexLock lock(&mutex_);
  counted_socket_ = socket_.native_handle();
}

std::string Connection::Where() const {
  const std::string address =
      via_ ? absl::StrCat("relay ", via_->Short()) : EndpointText(remote_);
  return peer_.zero() ? absl::StrCat("connection with ", address)
                      : absl::StrCat("connection with node ", peer_.Short(), " at ", address);
}

void Connection::Handshake(Done done) {
  world_->live.insert(shared_from_this());
  handshake_done_ = std::move(done);
  ArmTimer(world_->options.handshake_timeout, [this] {
    End(Lost(Where(), absl::StrCat("no handshake and hello within ",
                                   HumanDuration(world_->options.handshake_timeout))));
  });
  DriveHandshake();
}

void Connection::DriveHandshake() {
  if (!WasDone(channel_.Handshake())) return;
  if (absl::Status status = CheckPeer(); !status.ok()) return End(status);
  state_ = State::kSecured;
  if (Done done = std::exchange(handshake_done_, nullptr)) done(absl::OkStatus());
}

absl::Status Connection::CheckPeer() {
  GDF_ASSIGN_OR_RETURN(peer_, channel_.Peer());
  if (peer_ == world_->tls.self()) {
    return absl::UnauthenticatedError(absl::StrCat(EndpointText(remote_), " is this node itself"));
  }
  if (expected_ && peer_ != *expected_) {
    return absl::UnauthenticatedError(absl::StrCat(EndpointText(remote_), " is node ",
                                                   peer_.ToString(), ", expected node ",
                                                   expected_->ToString()));
  }
  return absl::OkStatus();
}

void Connection::Greet(Purpose purpose, HelloDone done, uint64_t circuit) {
  if (state_ != State::kSecured) {
    return done(Lost(Where(), "closed before the hello"));
  }
  purpose_ = purpose;
  hello_done_ = std::move(done);
  state_ = State::kGreeting;
  if (dialled_) {
    queue_.Push(HelloFrame({world_->incarnation, purpose, MayBeClear(), circuit}));
    TryWrite();
  }
  TryRead();
}

void Connection::HandleHello(const Frame& frame) {
  absl::StatusOr<Hello> hello = DecodeHello(frame);
  if (!hello.ok()) return End(Annotate(hello.status(), Where()), hello.status());
  state_ = State::kGreeted;
  timer_.cancel();
  if (!dialled_) purpose_ = hello->purpose;
  if (world_->options.congestion_control.empty()) TuneForPath(socket_.native_handle());
  clear_ = hello->clear && MayBeClear();
  if (dialled_ && purpose_ == Purpose::kCircuit && hello->purpose != purpose_) {
    return End(Lost(Where(), "it knows no circuits"));
  }
  channel_.ReadRest(clear_);
  if (dialled_ && clear_) channel_.WriteRestInClear();
  if (HelloDone done = std::exchange(hello_done_, nullptr)) done(hello);
}

// A circuit's ends have TLS of their own within it, and its address says nothing about the way to the peer.
bool Connection::MayBeClear() const {
  if (purpose_ == Purpose::kCircuit) return true;
  return purpose_ == Purpose::kStripe && !via_ && world_->clear_networks.Contain(remote_.address());
}

void Connection::Surrender(SocketDone done) {
  if (state_ != State::kGreeted) return done(Lost(Where(), "closed right after the hello"));
  surrender_ = std::move(done);
  if (dialled_) return GiveSocket();
  ArmTimer(world_->options.handshake_timeout,
           [this] { End(Lost(Where(), "the answer to its hello is not taken")); });
  queue_.Push(HelloFrame({world_->incarnation, purpose_, clear_}));
  TryWrite();
}

bool Connection::PostToIo(std::function<void()> fn) {
  absl::MutexLock lock(&mutex_);
  if (counted_socket_ < 0) return false;
  asio::post(world_->io, std::move(fn));
  return true;
}

void Connection::Start(std::weak_ptr<ConnectionEvents> events) {
  const bool posted = PostToIo([self = shared_from_this(), events] {
    self->events_ = events;
    if (self->state_ == State::kClosed) {
      return self->Report(Lost(self->Where(), "closed right after the hello"));
    }
    if (self->state_ != State::kGreeted) return;  // Close() came first
    self->state_ = State::kOpen;
    self->last_received_ = self->world_->Now();
    if (!self->dialled_) {
      self->queue_.Push(HelloFrame({self->world_->incarnation, self->purpose_, self->clear_}));
    }
    self->KeepAlive();
    self->Flush();
    self->TryRead();
  });
  if (posted) return;
  world_->executor.Post([self = shared_from_this(), events = std::move(events)] {
    if (auto target = events.lock()) {
      target->OnClosed(self, Lost(self->Where(), "closed right after the hello"));
    }
  });
}

void Connection::ArmTimer(absl::Duration delay, std::function<void()> fn) {
  timer_.expires_after(absl::ToChronoNanoseconds(delay));
  timer_.async_wait([self = shared_from_this(), fn = std::move(fn)](std::error_code ec) {
    // A handler may already be queued when its timer is set anew.
    if (!ec && self->state_ != State::kClosed) fn();
  });
}

void Connection::KeepAlive() {
  if (state_ != State::kOpen) return;
  const TlsTransportOptions& options = world_->options;
  // What we do not read cannot show that the peer lives, and it is told that we do: its ping may wait to be read for as
  // long. Nor can it answer one of ours that waits behind a frame; then it lives while it takes that frame.
  const bool taken = MoreWasTaken();
  if (std::exchange(held_back_, false)) {
    last_received_ = world_->Now();
    queue_.Push({.type = FrameType::kPong, .payload = Buffer(std::vector<uint8_t>(8))});
    TryWrite();
    if (state_ != State::kOpen) return;
  } else if (InFrame() && taken) {
    last_received_ = world_->Now();
  }
  const absl::Duration silent = world_->Now() - last_received_;
  if (silent >= options.keepalive_idle + options.keepalive_timeout) {
    return End(Lost(Where(), absl::StrCat("no sign of life for ", HumanDuration(silent))));
  }
  absl::Duration next = options.keepalive_idle - silent;
  if (next <= absl::ZeroDuration()) {
    if (!std::exchange(asked_, true)) {
      queue_.Push({.type = FrameType::kPing, .payload = Buffer(std::vector<uint8_t>(8))});
      TryWrite();
    }
    next = options.keepalive_idle + options.keepalive_timeout - silent;
  }
  ArmTimer(next, [this] { KeepAlive(); });
}

bool Connection::InFrame() const { return record_at_ < record_.size() || tail_at_ < tail_.size(); }

bool Connection::MoreWasTaken() {
  const std::optional<TrafficCounters> counters = ReadTcpInfo(socket_.native_handle());
  return counters && std::exchange(taken_, counters->bytes_sent) != counters->bytes_sent;
}

void Connection::ArmRead() {
  if (std::exchange(read_armed_, true)) return;
  socket_.async_wait(asio::socket_base::wait_read, [self = shared_from_this()](std::error_code ec) {
    self->read_armed_ = false;
    if (!ec) self->OnReady();
  });
}

void Connection::ArmWrite() {
  if (std::exchange(write_armed_, true)) return;
  socket_.async_wait(asio::socket_base::wait_write,
                     [self = shared_from_this()](std::error_code ec) {
                       self->write_armed_ = false;
                       if (!ec) self->OnReady();
                     });
}

void Connection::OnReady() {
  switch (state_) {
    case State::kHandshake:
      return DriveHandshake();
    case State::kClosing:
      DiscardInput();
      return TryWrite();
    case State::kClosed:
      return;
    default:
      TryWrite();
      TryRead();
  }
}

bool Connection::WasDone(const ChannelStep& step) {
  switch (step.kind) {
    case ChannelStep::Kind::kDone:
      break;
    case ChannelStep::Kind::kWaitRead:
      ArmRead();
      break;
    case ChannelStep::Kind::kWaitWrite:
      ArmWrite();
      break;
    case ChannelStep::Kind::kEnded:
      End(Lost(Where(), step.ended));
      break;
  }
  return step.kind == ChannelStep::Kind::kDone;
}

bool Connection::ReadMayGoOn() {
  if (state_ != State::kGreeting && state_ != State::kOpen) return false;
  if (undelivered_ <= kMaxUndelivered && !read_throttled_ && !ThrottleRead()) return true;
  held_back_ = true;
  return false;
}

bool Connection::ThrottleRead() {
  if (purpose_ != Purpose::kStripe) return false;
  const absl::Duration wait = world_->download.WaitTime(world_->Now());
  if (wait <= absl::ZeroDuration()) return false;
  read_throttled_ = true;
  read_throttle_.expires_after(absl::ToChronoNanoseconds(wait));
  read_throttle_.async_wait([self = shared_from_this()](std::error_code) {
    self->read_throttled_ = false;
    self->last_received_ = self->world_->Now();
    self->TryRead();
  });
  return true;
}

void Connection::TryRead() {
  size_t turn = 0;
  while (ReadMayGoOn()) {
    if (turn >= kTurnBytes) {
      asio::post(world_->io, [self = shared_from_this()] { self->TryRead(); });
      return;
    }
    const absl::Span<uint8_t> target = reader_.Target();
    const bool limited = purpose_ == Purpose::kStripe;
    const ChannelStep step = channel_.Read(limited ? target.first(std::min(target.size(), world_->download.Portion())) : target);
    if (!WasDone(step)) return;
    turn += step.bytes;
    last_received_ = world_->Now();
    asked_ = false;
    world_->download.Consume(step.bytes, last_received_);
    absl::StatusOr<std::optional<Frame>> frame = reader_.Advance(step.bytes);
    if (!frame.ok()) {
      return End(Annotate(absl::UnavailableError(frame.status().message()), Where()),
                 frame.status());
    }
    if (frame->has_value() && !HandleFrame(**std::move(frame))) return;
  }
}

bool Connection::HandleFrame(Frame frame) {
  if (frame.type == FrameType::kClose) {
    End(Annotate(DecodeStatus(frame), absl::StrCat("closed by node ", peer_.Short())));
    return false;
  }
  if (state_ == State::kGreeting) {
    HandleHello(frame);
    return state_ == State::kOpen;
  }
  switch (frame.type) {
    case FrameType::kHello: {
      const absl::Status status = absl::InvalidArgumentError("a second hello");
      End(Lost(Where(), "a second hello"), status);
      return false;
    }
    case FrameType::kPing:
      frame.type = FrameType::kPong;
      queue_.Push(std::move(frame));
      TryWrite();
      return state_ == State::kOpen;
    case FrameType::kPong:
      return true;  // that it came is all it says
    default:
      Deliver(std::move(frame));
      return true;
  }
}

void Connection::Deliver(Frame frame) {
  undelivered_ += frame.payload.size() + kFrameOverhead;
  world_->executor.Post(
      [self = shared_from_this(), events = events_, frame = std::move(frame)]() mutable {
        const size_t bytes = frame.payload.size();
        if (auto target = events.lock()) target->OnFrame(self, std::move(frame));
        self->Consumed(bytes);
      });
}

void Connection::Consumed(size_t bytes) {
  const size_t size = bytes + kFrameOverhead;
  const size_t before = undelivered_.fetch_sub(size);
  if (before > kMaxUndelivered && before - size <= kMaxUndelivered) {
    PostToIo([self = shared_from_this()] { self->TryRead(); });
  }
}

void Connection::Send(Frame frame) {
  {
    absl::MutexLock lock(&mutex_);
    if (counted_socket_ < 0) return;
    outbox_.push_back(std::move(frame));
    if (std::exchange(flush_posted_, true)) return;
  }
  PostToIo([self = shared_from_this()] { self->Flush(); });
}

void Connection::Flush() {
  std::vector<Frame> frames;
  {
    absl::MutexLock lock(&mutex_);
    frames.swap(outbox_);
    flush_posted_ = false;
  }
  if (state_ == State::kClosing || state_ == State::kClosed) return;
  for (Frame& frame : frames) queue_.Push(std::move(frame));
  if (queue_.urgent_size() > kMaxUrgentFrames) {
    return End(Lost(Where(), "the peer does not read what it asked for"));
  }
  if (state_ == State::kOpen) TryWrite();
}

bool Connection::FillRecord() {
  if (std::exchange(hello_in_record_, false)) channel_.WriteRestInClear();
  record_.clear();
  record_at_ = 0;
  tail_ = Buffer();
  tail_at_ = 0;
  while (record_.size() + kFrameHeaderBytes < kRecordBytes) {
    std::optional<Frame> frame = queue_.Pop();
    if (!frame) break;
    const auto header = EncodeHeader(*frame);
    record_.insert(record_.end(), header.begin(), header.end());
    const absl::Span<const uint8_t> payload = frame->payload.span();
    const size_t first = std::min(payload.size(), kRecordBytes - record_.size());
    record_.insert(record_.end(), payload.begin(), payload.begin() + static_cast<ptrdiff_t>(first));
    if (first < payload.size()) {
      tail_ = std::move(frame->payload);
      tail_at_ = first;
      break;
    }
    hello_in_record_ = frame->type == FrameType::kHello && clear_;
    if (hello_in_record_) break;
  }
  return !record_.empty();
}

void Connection::TryWrite() {
  if (state_ == State::kHandshake || state_ == State::kClosed || write_armed_) return;
  const bool limited = purpose_ == Purpose::kStripe && state_ != State::kClosing;
  size_t turn = 0;
  while (true) {
    if (!InFrame()) {
      if (FillRecord()) continue;
      if (surrender_) return GiveSocket();
      if (state_ == State::kOpen && close_when_sent_) {
        return End(*close_when_sent_, *close_when_sent_);
      }
      if (state_ == State::kClosing) channel_.Finish();
      return;
    }
    if (limited) {
      if (write_throttled_) return;
      const absl::Duration wait = world_->upload.WaitTime(world_->Now());
      if (wait > absl::ZeroDuration()) {
        write_throttled_ = true;
        write_throttle_.expires_after(absl::ToChronoNanoseconds(wait));
        write_throttle_.async_wait([self = shared_from_this()](std::error_code) {
          self->write_throttled_ = false;
          self->TryWrite();
        });
        return;
      }
    }
    if (turn >= kTurnBytes) {
      asio::post(world_->io, [self = shared_from_this()] { self->TryWrite(); });
      return;
    }
    const bool in_record = record_at_ < record_.size();
    const absl::Span<const uint8_t> left = in_record ? absl::MakeConstSpan(record_).subspan(record_at_) : tail_.span().subspan(tail_at_);
    const size_t most = limited ? std::min(kTurnBytes, world_->upload.Portion()) : kTurnBytes;
    const absl::Span<const uint8_t> now = left.first(std::min(left.size(), most));
    const ChannelStep step = channel_.Write(now, now.size() < left.size() || (in_record && tail_at_ < tail_.size()));
    if (!WasDone(step)) return;
    (in_record ? record_at_ : tail_at_) += step.bytes;
    turn += step.bytes;
    world_->upload.Consume(step.bytes, world_->Now());
  }
}

void Connection::Close(absl::Status why) {
  PostToIo([self = shared_from_this(), why = std::move(why)] {
    self->handshake_done_ = nullptr;
    self->hello_done_ = nullptr;
    self->surrender_ = nullptr;
    self->events_.reset();
    if (self->state_ == State::kHandshake) return self->CloseSocket();
    if (self->state_ != State::kClosed && self->state_ != State::kClosing) self->StartClosing(why);
  });
}

void Connection::CloseWhenSent(absl::Status why) {
  PostToIo([self = shared_from_this(), why = std::move(why)] {
    self->close_when_sent_ = why;
    self->Flush();
  });
}

void Connection::Stop() {
  handshake_done_ = nullptr;
  hello_done_ = nullptr;
  surrender_ = nullptr;
  events_.reset();
  if (state_ == State::kOpen) StartClosing(absl::UnavailableError("the node is shutting down"));
  CloseSocket();
}

void Connection::End(absl::Status why, std::optional<absl::Status> tell) {
  if (state_ == State::kClosed) return;
  if (state_ == State::kClosing) return CloseSocket();
  const std::shared_ptr<Connection> self = shared_from_this();
  if ((tell && state_ != State::kHandshake) || channel_.Refused()) {
    StartClosing(tell);
  } else {
    CloseSocket();
  }
  Report(why);
}

void Connection::Report(const absl::Status& why) {
  if (Done done = std::exchange(handshake_done_, nullptr)) return done(why);
  if (HelloDone done = std::exchange(hello_done_, nullptr)) return done(why);
  if (SocketDone done = std::exchange(surrender_, nullptr)) return done(why);
  world_->executor.Post([self = shared_from_this(), events = std::exchange(events_, {}), why] {
    if (auto target = events.lock()) target->OnClosed(self, why);
  });
}

void Connection::StartClosing(const std::optional<absl::Status>& tell) {
  state_ = State::kClosing;
  queue_.Clear();
  if (channel_.Refused()) {
    record_.clear();
    tail_ = Buffer();
  } else {
    queue_.Push(StatusFrame(FrameType::kClose, 0, *tell));
  }
  write_throttled_ = false;
  ArmTimer(kCloseGrace, [this] { CloseSocket(); });
  TryWrite();
  DiscardInput();
}

// Unread input at close() would make the kernel reset the connection, and the reason would be lost
// with it.
void Connection::DiscardInput() {
  char sink[4096];
  std::error_code ec;
  for (size_t total = 0; state_ == State::kClosing && total < kTurnBytes;) {
    const size_t n = socket_.read_some(asio::buffer(sink), ec);
    if (ec == asio::error::would_block || ec == asio::error::try_again) return ArmRead();
    if (ec) return CloseSocket();
    total += n;
  }
  if (state_ == State::kClosing) CloseSocket();
}

void Connection::CloseSocket() {
  state_ = State::kClosed;
  std::optional<TrafficCounters> last = ReadTcpInfo(socket_.native_handle());
  {
    absl::MutexLock lock(&mutex_);
    if (counted_socket_ < 0) return;
    counted_socket_ = -1;
    if (last) final_counters_ = *last;
    final_counters_.rtt = final_counters_.min_rtt = absl::ZeroDuration();
    outbox_.clear();
  }
  std::error_code ec;
  socket_.close(ec);
  timer_.cancel();
  read_throttle_.cancel();
  write_throttle_.cancel();
  queue_.Clear();
  tail_ = Buffer();
  tail_at_ = 0;
  world_->live.erase(shared_from_this());
}

void Connection::GiveSocket() {
  const std::shared_ptr<Connection> self = shared_from_this();
  const SocketDone done = std::exchange(surrender_, nullptr);
  std::error_code ec;
  socket_.cancel(ec);
  asio::ip::tcp::socket socket = std::move(socket_);
  CloseSocket();
  done(std::move(socket));
}

TrafficCounters Connection::counters() const {
  absl::MutexLock lock(&mutex_);
  if (counted_socket_ >= 0) {
    if (std::optional<TrafficCounters> now = ReadTcpInfo(counted_socket_)) return *now;
  }
  return final_counters_;
}

}  // namespace gdf::net
