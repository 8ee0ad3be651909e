// How fast this node's link was in one exchange, from the kernel's counters of what passed with the members anyway.
#ifndef GDF_CORE_EXCHANGE_LINK_METER_H_
#define GDF_CORE_EXCHANGE_LINK_METER_H_

#include <functional>
#include <vector>

#include "absl/time/time.h"
#include "core/base/ids.h"
#include "core/net/traffic_meter.h"
#include "core/net/transport.h"
#include "core/wire/round_messages.h"

namespace gdf::exchange {

// A rate is that of the busiest kWindow, all peers together: an exchange waits for its slowest member, and what a
// faster one's link can do shows only while that one is not waiting. Executor only.
class LinkMeter {
 public:
  static constexpr absl::Duration kWindow = absl::Milliseconds(200);

  using Counters = std::function<net::TrafficCounters(const NodeId&)>;  // as Transport::counters

  // So many a second, as LinkFigures has it. `took` is more than zero.
  static uint64_t Rate(uint64_t count, absl::Duration took);

  // From now on, with `peers`.
  LinkMeter(Counters counters, std::vector<NodeId> peers, absl::Duration now);

  // A window has passed.
  void EndWindow(absl::Duration now);

  // The exchange is over. values_per_sec is not known here.
  wire::LinkFigures Finish(absl::Duration now);

 private:
  void Read();
  // The rate of `passed` in `took`, where it is the highest so far.
  void Take(const net::TrafficCounters& passed, absl::Duration took);

  const Counters counters_;
  const std::vector<NodeId> peers_;
  net::TrafficMeter traffic_;
  absl::Duration window_begin_;
  bool had_window_ = false;
  uint64_t passed_ = 0;  // in windows, both ways
  wire::LinkFigures figures_;
};

}  // namespace gdf::exchange

#endif  // GDF_CORE_EXCHANGE_LINK_METER_H_
