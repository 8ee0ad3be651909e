#include "core/exchange/link_meter.h"

#include <algorithm>
#include <utility>

namespace gdf::exchange {
namespace {

// Of an exchange that moves less, latency decides how long it takes, not the link.
constexpr uint64_t kTellingBytes = uint64_t{64} << 10;

}  // namespace

uint64_t LinkMeter::Rate(uint64_t count, absl::Duration took) {
  const double rate = static_cast<double>(count) / absl::ToDoubleSeconds(took);
  return static_cast<uint64_t>(std::min(rate, static_cast<double>(wire::kMaxRate)));
}

LinkMeter::LinkMeter(Counters counters, std::vector<NodeId> peers, absl::Duration now)
    : counters_(std::move(counters)), peers_(std::move(peers)), window_begin_(now) {
  for (const NodeId& peer : peers_) {
    // Later it would be that of full queues.
    figures_.rtt = std::clamp(counters_(peer).rtt, figures_.rtt, wire::kMaxRtt);
  }
  Read();
}

void LinkMeter::Read() {
  for (const NodeId& peer : peers_) traffic_.Read(peer, counters_(peer));
}

void LinkMeter::EndWindow(absl::Duration now) {
  Read();
  had_window_ = true;
  const net::TrafficCounters passed = traffic_.Take();
  passed_ += passed.bytes_sent + passed.bytes_received;
  Take(passed, now - std::exchange(window_begin_, now));
}

wire::LinkFigures LinkMeter::Finish(absl::Duration now) {
  // In an exchange that is shorter than a window nothing arrives in the first half of a round trip, or leaves in the last.
  const absl::Duration took = now - window_begin_;
  Read();
  const net::TrafficCounters rest = traffic_.Take();
  if (!had_window_) Take(rest, std::max(took - figures_.rtt, took / 4));
  if (passed_ + rest.bytes_sent + rest.bytes_received < kTellingBytes) figures_.up_bytes_per_sec = figures_.down_bytes_per_sec = 0;
  for (const NodeId& peer : peers_) {
    const absl::Duration least = counters_(peer).min_rtt;
    if (least > absl::ZeroDuration() && least <= wire::kNearRtt) figures_.near.push_back(peer);
  }
  return figures_;
}

void LinkMeter::Take(const net::TrafficCounters& passed, absl::Duration took) {
  if (took <= absl::ZeroDuration()) return;
  figures_.up_bytes_per_sec = std::max(figures_.up_bytes_per_sec, Rate(passed.bytes_sent, took));
  figures_.down_bytes_per_sec = std::max(figures_.down_bytes_per_sec, Rate(passed.bytes_received, took));
}

}  // namespace gdf::exchange
