// In which order jobs that wait are placed, and for which of them nodes are kept free: a pure function of the jobs, the
// nodes, what submitters have used and a policy. docs/scheduling.md has the rules, and why they are these.
//
//   QueuePlan plan = PlanQueue(waiting, offers, uses, QueuePolicy(), now);
//   for (const Placement& p : plan.placements) ...
#ifndef GDF_CORE_SCHEDULE_QUEUE_H_
#define GDF_CORE_SCHEDULE_QUEUE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/schedule/placement.h"

namespace gdf::schedule {

struct QueuePolicy {
  absl::Duration half_life = absl::Hours(24);  // of use that is past; HTCondor's PRIORITY_HALFLIFE
  absl::Duration ahead = absl::Hours(1);       // a node that a job has counts as if it had it for so much longer
  absl::Duration patience = absl::Hours(1);    // who has waited for so long may have nodes kept free
};

// What one submitter's jobs have had.
struct Use {
  double node_seconds = 0;  // decayed
  int64_t nodes = 0;        // that they have now
};

// Node seconds that `nodes` nodes from `begin` to `end` count for at `now`: ∫ nodes · 2^(-(now - t) / half_life) dt, by its
// closed form. An end in the future counts as `now`. half_life > 0.
double DecayedUse(int64_t nodes, absl::Time begin, absl::Time end, absl::Time now, absl::Duration half_life);

struct WaitingJob {
  const JobRequest* request = nullptr;  // its spec has the priority
  NodeId submitter;
  absl::Time submitted;
};

struct QueuePlan {
  std::vector<Placement> placements;  // of every job, in the order in which they were decided; reasons say which of those that wait it is
  std::vector<NodeId> kept;           // free nodes that only one of the jobs may have, in order; none: nothing is kept
  std::optional<absl::Time> next;     // when waiting alone changes the plan
};

// Who has used least is next; of its jobs the one of the highest priority, then the oldest. What a job cannot use, later ones
// may have, until one in this order has waited for `patience` and could run if all nodes that are alive were free: then
// the free nodes that suit it are kept for it, one job at a time. The order of `jobs` and `nodes` does not matter.
QueuePlan PlanQueue(absl::Span<const WaitingJob> jobs, absl::Span<const NodeOffer> nodes, const std::map<NodeId, Use>& uses,
                    const QueuePolicy& policy, absl::Time now);

}  // namespace gdf::schedule

#endif  // GDF_CORE_SCHEDULE_QUEUE_H_
