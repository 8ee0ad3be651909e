// What a submission was, as one digest: job numbers begin again in a new or restored network, so signatures for a job
// name this too.
#ifndef GDF_CORE_STATE_SUBMISSION_H_
#define GDF_CORE_STATE_SUBMISSION_H_

#include "core/base/hash.h"
#include "core/base/ids.h"
#include "core/state/records.h"

namespace gdf::state {

// SHA-256 over the network, the job's number, its token, its time and what was submitted (docs/formats/round-messages.md);
// all from the command log, so the same at every node, and none that a replaced key changes. `job` must have its texts.
Digest SubmissionDigest(const NetworkId& network, const Job& job);

}  // namespace gdf::state

#endif  // GDF_CORE_STATE_SUBMISSION_H_
