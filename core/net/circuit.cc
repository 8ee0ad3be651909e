#include "core/net/circuit.h"

#include <algorithm>
#include <asio/buffer.hpp>
#include <utility>

namespace gdf::net {
namespace {

constexpr size_t kBlockBytes = size_t{64} << 10;
constexpr absl::Duration kMaxIdle = absl::Minutes(1);  // the ends ask each other for signs of life more often

}  // namespace

Circuit::Circuit(std::shared_ptr<IoWorld> world, std::function<void()> ended)
    : world_(std::move(world)),
      ended_(std::move(ended)),
      sides_{Side(world_->io), Side(world_->io)},
      timer_(world_->io) {}

void Circuit::Start() {
  world_->live.insert(shared_from_this());
  timer_.expires_after(absl::ToChronoNanoseconds(world_->options.handshake_timeout));
  timer_.async_wait([self = shared_from_this()](std::error_code ec) {
    const bool joined = self->sides_[0].socket && self->sides_[1].socket;
    if (!ec && !joined) self->End();
  });
}

void Circuit::Take(int end, asio::ip::tcp::socket socket) {
  if (over_) return;
  sides_[end].socket = std::move(socket);
  if (!sides_[1 - end].socket) return;
  last_passed_ = world_->Now();
  WatchIdle();
  for (int from : {0, 1}) {
    sides_[from].block.resize(kBlockBytes);
    Pump(from);
  }
}

// The owner's limits hold for what is relayed as for bulk data of the node's own.
void Circuit::Pump(int from) {
  if (over_) return;
  Side& side = sides_[from];
  const absl::Duration now = world_->Now();
  const absl::Duration wait = std::max({world_->relay.WaitTime(now), world_->upload.WaitTime(now), world_->download.WaitTime(now)});
  if (wait > absl::ZeroDuration()) {
    side.pause.expires_after(absl::ToChronoNanoseconds(wait));
    side.pause.async_wait([self = shared_from_this(), from](std::error_code ec) {
      if (!ec) self->Pump(from);
    });
    return;
  }
  side.socket->async_read_some(
      asio::buffer(side.block), [self = shared_from_this(), from](std::error_code ec, size_t size) {
        if (self->over_) return;
        if (ec == asio::error::eof) return self->Finished(from);
        if (ec) return self->End();
        const absl::Duration then = self->world_->Now();
        self->last_passed_ = then;
        for (TokenBucket* bucket : {&self->world_->relay, &self->world_->upload, &self->world_->download}) {
          bucket->Consume(size, then);
        }
        self->PassOn(from, 0, size);
      });
}

void Circuit::PassOn(int from, size_t at, size_t size) {
  if (at == size) return Pump(from);
  sides_[1 - from].socket->async_write_some(
      asio::buffer(sides_[from].block.data() + at, size - at),
      [self = shared_from_this(), from, at, size](std::error_code ec, size_t written) {
        if (self->over_) return;
        if (ec) return self->End();
        self->PassOn(from, at + written, size);
      });
}

void Circuit::Finished(int from) {
  sides_[from].finished = true;
  if (sides_[1 - from].finished) return End();
  std::error_code ec;
  sides_[1 - from].socket->shutdown(asio::socket_base::shutdown_send, ec);
}

void Circuit::WatchIdle() {
  const absl::Duration left = last_passed_ + kMaxIdle - world_->Now();
  if (left <= absl::ZeroDuration()) return End();
  timer_.expires_after(absl::ToChronoNanoseconds(left));
  timer_.async_wait([self = shared_from_this()](std::error_code ec) {
    if (!ec && !self->over_) self->WatchIdle();
  });
}

void Circuit::Stop() {
  ended_ = nullptr;
  End();
}

void Circuit::End() {
  if (std::exchange(over_, true)) return;
  const std::shared_ptr<Circuit> self = shared_from_this();
  for (Side& side : sides_) {
    std::error_code ec;
    if (side.socket) side.socket->close(ec);
    side.pause.cancel();
  }
  timer_.cancel();
  world_->live.erase(self);
  if (const std::function<void()> ended = std::exchange(ended_, nullptr)) ended();
}

}  // namespace gdf::net
