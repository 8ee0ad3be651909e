// A rate limit: tokens are bytes. Consumption may run into debt; who can wait does so until it is
// paid.
#ifndef GDF_CORE_NET_TOKEN_BUCKET_H_
#define GDF_CORE_NET_TOKEN_BUCKET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"

namespace gdf::net {

// Not thread-safe.
class TokenBucket {
 public:
  // 0: no limit. The bucket holds 50 ms of the rate: long enough for timers, short enough for an
  // even flow.
  void SetRate(uint64_t bytes_per_sec, absl::Duration now) {
    Refill(now);
    rate_ = static_cast<double>(bytes_per_sec);
    tokens_ = std::min(tokens_, Capacity());
    last_ = now;
  }
  bool limited() const { return rate_ > 0; }
  void Consume(size_t bytes, absl::Duration now) {
    if (!limited()) return;
    Refill(now);
    tokens_ -= static_cast<double>(bytes);
  }
  // What to move at a time, so that the flow is even and the other end sees that it goes on.
  size_t Portion() const {
    constexpr double kSeconds = 0.25, kLeast = 1 << 10, kMost = 1 << 30;
    return static_cast<size_t>(limited() ? std::clamp(rate_ * kSeconds, kLeast, kMost) : kMost);
  }
  // How long until something may be sent: zero while tokens are left.
  absl::Duration WaitTime(absl::Duration now) {
    if (!limited()) return absl::ZeroDuration();
    Refill(now);
    return tokens_ > 0 ? absl::ZeroDuration() : absl::Seconds((1 - tokens_) / rate_);
  }

 private:
  double Capacity() const { return rate_ * 0.05; }
  void Refill(absl::Duration now) {
    if (now <= last_) return;
    tokens_ = std::min(Capacity(), tokens_ + rate_ * absl::ToDoubleSeconds(now - last_));
    last_ = now;
  }
  double rate_ = 0;
  double tokens_ = 0;
  absl::Duration last_;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_TOKEN_BUCKET_H_
