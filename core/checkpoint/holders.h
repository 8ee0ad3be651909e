// Which members keep what all of them have alike of a job's checkpoints, θ and the outer state: as many as job.yaml's
// `checkpoints.replicas` asks for (docs/adr/0015-replicas.md). Every member finds the same without asking.
#ifndef GDF_CORE_CHECKPOINT_HOLDERS_H_
#define GDF_CORE_CHECKPOINT_HOLDERS_H_

#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"

namespace gdf::checkpoint {

// The first `replicas` of `members` by rendezvous hashing with the job: the same for all of its checkpoints, so that what
// does not change is stored once; of other members for another job; and who goes calls one other, and moves nothing else.
std::vector<NodeId> HoldersOf(JobId job, absl::Span<const NodeId> members, size_t replicas);

}  // namespace gdf::checkpoint

#endif  // GDF_CORE_CHECKPOINT_HOLDERS_H_
