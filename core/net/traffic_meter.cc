#include "core/net/traffic_meter.h"

#include <cstdint>

namespace gdf::net {
namespace {

// A counter that is lower than before began again from zero.
uint64_t Since(uint64_t before, uint64_t now) { return now >= before ? now - before : now; }

}  // namespace

void TrafficMeter::Read(const NodeId& node, const TrafficCounters& now) {
  const auto [last, is_new] = last_.try_emplace(node, now);
  if (is_new) return;
  passed_.bytes_sent += Since(last->second.bytes_sent, now.bytes_sent);
  passed_.bytes_received += Since(last->second.bytes_received, now.bytes_received);
  last->second = now;
}

}  // namespace gdf::net
