#include "core/net/traffic_meter.h"

#include <catch2/catch.hpp>
#include <string>

#include "core/base/hash.h"

namespace gdf::net {
namespace {

NodeId Node(int i) { return NodeId(HashBytes("node " + std::to_string(i))); }

TrafficCounters Counters(uint64_t sent, uint64_t received) {
  TrafficCounters counters;
  counters.bytes_sent = sent;
  counters.bytes_received = received;
  return counters;
}

TEST_CASE("traffic is counted from the job's begin, once, and by node") {
  TrafficMeter meter;
  meter.Read(Node(1), Counters(1000, 500));  // of jobs before this one
  CHECK(meter.Take().bytes_sent == 0);
  meter.Read(Node(1), Counters(1100, 530));
  meter.Read(Node(2), Counters(7, 7));  // came later: counts from now
  meter.Read(Node(2), Counters(10, 8));
  const TrafficCounters passed = meter.Take();
  CHECK(passed.bytes_sent == 103);
  CHECK(passed.bytes_received == 31);
  CHECK(meter.Take().bytes_sent == 0);
  // Node 1 is not read any more; what node 2 adds is not less for it. Its counters began again.
  meter.Read(Node(2), Counters(4, 9));
  CHECK(meter.Take().bytes_sent == 4);
}

}  // namespace
}  // namespace gdf::net
