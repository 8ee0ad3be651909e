#include "core/exchange/link_meter.h"

#include <algorithm>
#include <utility>

namespace gdf::exchange {
namespace {

uint64_t Rate(uint64_t bytes, absl::Duration took) {
  const double rate = static_cast<double>(bytes) / absl::ToDoubleSeconds(took);
  return static_cast<uint64_t>(std::min(rate, static_cast<double>(wire::kMaxRate)));
}

}  // namespace

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
  Take(traffic_.Take(), now - std::exchange(window_begin_, now));
}

wire::LinkFigures LinkMeter::Finish(absl::Duration now) {
  // In an exchange that is shorter than a window nothing arrives in the first half of a round trip, or leaves in the last.
  const absl::Duration took = now - window_begin_;
  Read();
  if (!had_window_) Take(traffic_.Take(), std::max(took - figures_.rtt, took / 4));
  return figures_;
}

void LinkMeter::Take(const net::TrafficCounters& passed, absl::Duration took) {
  if (took <= absl::ZeroDuration()) return;
  figures_.up_bytes_per_sec = std::max(figures_.up_bytes_per_sec, Rate(passed.bytes_sent, took));
  figures_.down_bytes_per_sec = std::max(figures_.down_bytes_per_sec, Rate(passed.bytes_received, took));
}

}  // namespace gdf::exchange
