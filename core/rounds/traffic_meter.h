// What this node and the members of its job send each other in a round.
#ifndef GDF_CORE_ROUNDS_TRAFFIC_METER_H_
#define GDF_CORE_ROUNDS_TRAFFIC_METER_H_

#include <map>
#include <utility>

#include "core/base/ids.h"
#include "core/net/transport.h"

namespace gdf::rounds {

// A transport's counters began with its connections and know no jobs. What is taken here began with the job, is taken
// once, and does not fall when a member leaves or a peer that was forgotten is counted anew.
class TrafficMeter {
 public:
  // Adds what has passed with `node` since it was read before; the first reading of a node adds nothing.
  void Read(const NodeId& node, const net::TrafficCounters& now);

  // All that was added since the last Take; its `rtt` means nothing.
  net::TrafficCounters Take() { return std::exchange(passed_, {}); }

 private:
  std::map<NodeId, net::TrafficCounters> last_;
  net::TrafficCounters passed_;
};

}  // namespace gdf::rounds

#endif  // GDF_CORE_ROUNDS_TRAFFIC_METER_H_
