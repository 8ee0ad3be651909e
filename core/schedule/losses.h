// Who leaves a job's epoch: a pure function of what its members say of each other and of whom the coordinator sees. No
// member is trusted: one alone removes nobody but itself, and the lead alone never so many that it could sign alone.
//
//   losses.Hear(from, lost, now);
//   std::vector<NodeId> staying = losses.Staying(epoch, now);
#ifndef GDF_CORE_SCHEDULE_LOSSES_H_
#define GDF_CORE_SCHEDULE_LOSSES_H_

#include <cstddef>
#include <map>
#include <vector>

#include "absl/time/time.h"
#include "core/base/ids.h"

namespace gdf::schedule {

// Of one epoch; of the next one, another.
class Losses {
 public:
  // As long as a member's word counts; members that mean it repeat it more often.
  static constexpr absl::Duration kLifetime = absl::Minutes(2);

  struct Group {
    std::vector<NodeId> members;  // of the epoch
    NodeId lead;
    std::vector<NodeId> online;   // those that the coordinator sees
    size_t placed = 0;            // as many members an epoch of the job had at most
  };

  // `from` says at `now` that `lost` are lost. Both are members; others must not come here.
  void Hear(const NodeId& from, const std::vector<NodeId>& lost, absl::Duration now);

  // The members, in their order, without those that
  // - the coordinator does not see, or that say so themselves;
  // - more than half of the others, and at least two, call lost;
  // - the lead alone calls lost, as long as more than half of the most that the job ever had stay.
  std::vector<NodeId> Staying(const Group& group, absl::Duration now) const;

 private:
  bool Says(const NodeId& from, const NodeId& lost, absl::Duration now) const;

  std::map<NodeId, std::map<NodeId, absl::Duration>> heard_;  // lost → by whom → when last
};

}  // namespace gdf::schedule

#endif  // GDF_CORE_SCHEDULE_LOSSES_H_
