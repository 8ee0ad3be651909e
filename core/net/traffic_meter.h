// What this node and some of its peers, as the members of a job, send each other.
#ifndef GDF_CORE_NET_TRAFFIC_METER_H_
#define GDF_CORE_NET_TRAFFIC_METER_H_

#include <map>
#include <utility>

#include "core/base/ids.h"
#include "core/net/transport.h"

namespace gdf::net {

// A transport's counters began with its connections and know no jobs. What is taken here began with the meter, is taken
// once, and does not fall when a member leaves or a peer that was forgotten is counted anew.
class TrafficMeter {
 public:
  // Adds what has passed with `node` since it was read before; the first reading of a node adds nothing.
  void Read(const NodeId& node, const TrafficCounters& now);

  // All that was added since the last Take; its `rtt` means nothing.
  TrafficCounters Take() { return std::exchange(passed_, {}); }

 private:
  std::map<NodeId, TrafficCounters> last_;
  TrafficCounters passed_;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_TRAFFIC_METER_H_
