// What a job asks of a node, and what the network's nodes offer: the inputs of core/schedule, from the network's record.
#ifndef GDF_GDFD_JOBS_JOB_REQUEST_H_
#define GDF_GDFD_JOBS_JOB_REQUEST_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "core/config/job_spec.h"
#include "core/membership/membership.h"
#include "core/schedule/placement.h"
#include "core/schedule/queue.h"
#include "core/state/state.h"

namespace gdf::jobs {

// `shape`, with a vocabulary of 512 ids where it has none: where a job does not state it, it is known
// only once the data is read. Errors as config::WithVocab.
absl::StatusOr<config::ModelShape> WithAssumedVocab(const config::ModelShape& shape);

// Bytes of a job's texts, without the files of a model or tokenizer.
uint64_t TextBytes(const std::vector<wire::JobInput>& inputs);

// What a job costs on a node, for its placement. `text_bytes`: TextBytes of its inputs.
// `spec.nodes.memory_bytes` counts where the shape is in a model's folder.
schedule::JobRequest MakeJobRequest(JobId id, const config::JobSpec& spec, uint64_t text_bytes);
// The same for a job in the record, of which `spec` is the parsed text.
schedule::JobRequest MakeJobRequest(const state::Job& job, const config::JobSpec& spec);

// Where `job` would be placed now, as far as this node knows. Any node, on the executor.
absl::StatusOr<schedule::Placement> Preview(state::State& state,
                                            const membership::Membership& membership,
                                            const schedule::JobRequest& job);

// What the submitters of `jobs` have used and have, by the record: each job counts with the nodes of its last epoch, from its
// first placement to its end.
std::map<NodeId, schedule::Use> Uses(const std::vector<state::Job>& jobs, const schedule::QueuePolicy& policy, absl::Time now);

// What the active members have that no job has taken, as far as this node knows. On the executor.
absl::StatusOr<std::vector<schedule::NodeOffer>> Offers(state::State& state,
                                                        const membership::Membership& membership);

}  // namespace gdf::jobs

#endif  // GDF_GDFD_JOBS_JOB_REQUEST_H_
