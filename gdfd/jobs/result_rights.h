// What the network's record says about a job's results: who may have them, and whether one was committed.
#ifndef GDF_GDFD_JOBS_RESULT_RIGHTS_H_
#define GDF_GDFD_JOBS_RESULT_RIGHTS_H_

#include "absl/status/status.h"
#include "core/state/state.h"
#include "core/wire/round_messages.h"

namespace gdf::jobs {

// kPermissionDenied unless `peer` is the job's owner, one of its members or an admin.
absl::Status CheckMayHaveResult(state::State& state, const state::Job& job, const NodeId& peer);

// Is it of this job, by a majority of the members that its epoch was opened with? kUnavailable when the record does not
// have that epoch (yet).
absl::Status CheckCommitted(state::State& state, const state::Job& job, const wire::Commit& commit);

}  // namespace gdf::jobs

#endif  // GDF_GDFD_JOBS_RESULT_RIGHTS_H_
