// How many of a round's inner steps each member takes, so that all are done at once: in proportion to how fast they were.
#ifndef GDF_CORE_SCHEDULE_STEP_SHARES_H_
#define GDF_CORE_SCHEDULE_STEP_SHARES_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"

namespace gdf::schedule {

// Of one job, as one lead has seen it. Not thread-safe.
class StepShares {
 public:
  // Nobody takes fewer than one in so many, so that one node's claim of a great speed does not idle the others.
  static constexpr int64_t kLeast = 8;
  // Who needs less than this more time than the fastest takes as many steps: times differ by as much from round to round.
  static constexpr double kSame = 0.05;

  // `node` took `steps` in `seconds` of its worker's time. The newest count for half.
  void Learn(const NodeId& node, uint64_t steps, double seconds);

  // Of `whole` steps, at least 1, by member: the fastest takes all of them, as does one of which nothing is known.
  std::vector<int64_t> Deal(absl::Span<const NodeId> members, int64_t whole) const;

 private:
  std::map<NodeId, double> seconds_;  // of a step
};

}  // namespace gdf::schedule

#endif  // GDF_CORE_SCHEDULE_STEP_SHARES_H_
