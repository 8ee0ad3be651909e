#include "core/schedule/exchange_time.h"

#include <algorithm>

#include "core/base/check.h"

namespace gdf::schedule {
namespace {

// With both limits, bytes take the slower direction's time; 0: none is known.
double Slower(const Link& link) {
  if (link.up_bytes_per_sec <= 0 || link.down_bytes_per_sec <= 0) {
    return std::max(link.up_bytes_per_sec, link.down_bytes_per_sec);
  }
  return std::min(link.up_bytes_per_sec, link.down_bytes_per_sec);
}

// Round trips of which each step waits for the one before: a slice and its mean, or a delta and the word that it is there.
double RoundTrips(Form form, size_t members) {
  switch (form) {
    case Form::kDirect:
    case Form::kAllGather:
      return 1;
    case Form::kRing:
      return static_cast<double>(members) - 1;
  }
  return 0;
}

// Values that a member decodes, adds up or encodes, over all values.
double Coded(Form form, size_t members, double share) {
  const auto n = static_cast<double>(members);
  switch (form) {
    case Form::kDirect:  // slices of its shard; their mean, encoded and decoded; the other means
      return n * share + 2 * share + (1 - share);
    case Form::kRing:  // N - 1 partial sums decoded and encoded; N - 1 means decoded, and its own
      return 3 * (n - 1) / n + 1 / n;
    case Form::kAllGather:
      return n;
  }
  return 0;
}

}  // namespace

double BytesMoved(Form form, double packed_bytes, size_t members, double share) {
  const auto n = static_cast<double>(members);
  switch (form) {
    case Form::kDirect:  // slices of the others' shards, and the mean of its own to each of them
      return packed_bytes * ((1 - share) + (n - 1) * share);
    case Form::kRing:
      return packed_bytes * 2 * (n - 1) / n;
    case Form::kAllGather:
      return packed_bytes * (n - 1);
  }
  return 0;
}

absl::Duration ExchangeTime(Form form, const ExchangeLoad& load) {
  const size_t n = load.links.size();
  GDF_CHECK(n > 0 && (load.shares.empty() || load.shares.size() == n));
  if (n == 1) return absl::ZeroDuration();
  double busiest = 0;
  for (size_t i = 0; i < n; ++i) {
    const double share = load.shares.empty() ? 1.0 / static_cast<double>(n) : load.shares[i];
    const double rate = Slower(load.links[i]);
    if (rate > 0) busiest = std::max(busiest, BytesMoved(form, load.packed_bytes, n, share) / rate);
    // Frames are coded while others are on their way.
    if (load.values_per_sec > 0) {
      busiest = std::max(busiest, load.num_values * Coded(form, n, share) / load.values_per_sec);
    }
  }
  return RoundTrips(form, n) * load.rtt + absl::Seconds(busiest);
}

// A member of rate r with share a is done after S (1 + (N - 2) a) / r. Done together after T S seconds, they own
// a = (T r - 1) / (N - 2), or none where that is less. The least T with which all shares together are 1:
std::vector<double> BestShares(const std::vector<Link>& links, double max_share) {
  const size_t n = links.size();
  const double equal = 1.0 / static_cast<double>(n);
  std::vector<double> shares(n, equal);
  double slowest = 0;
  for (const Link& link : links) {
    const double rate = Slower(link);
    if (rate <= 0) return shares;
    slowest = slowest == 0 ? rate : std::min(slowest, rate);
  }
  // Two members move the same bytes however the delta is shared.
  if (n <= 2 || max_share <= equal) return shares;
  double sum = 0;
  const auto fill = [&](double time) {
    sum = 0;
    for (size_t i = 0; i < n; ++i) {
      shares[i] = std::clamp((time * Slower(links[i]) - 1) / static_cast<double>(n - 2), 0.0, max_share);
      sum += shares[i];
    }
    return sum;
  };
  // With the time that equal shares take, everybody could own at least so much.
  double enough = (1 + static_cast<double>(n - 2) * equal) / slowest, too_little = 0;
  for (int i = 0; i < 100; ++i) {
    const double middle = (enough + too_little) / 2;
    (fill(middle) >= 1 ? enough : too_little) = middle;
  }
  fill(enough);
  for (double& share : shares) share /= sum;
  return shares;
}

}  // namespace gdf::schedule
