// The speed that a plan's time rests on: what jobs of this network reached.
#ifndef GDF_GDFD_JOBS_PAST_SPEED_H_
#define GDF_GDFD_JOBS_PAST_SPEED_H_

#include <optional>

#include "absl/status/statusor.h"
#include "core/config/job_spec.h"
#include "core/schedule/speed.h"
#include "core/state/state.h"

namespace gdf::jobs {

struct PastSpeed {
  JobId job;
  schedule::Speed speed;
};

// Of the last rounds of the newest job that trained on the kind of device that `gpu` says. A job that starts from a
// folder counts where `spec` starts from that folder too, as its model, of `shape`, is not known here otherwise.
// Absent when there is none among the newest 50.
absl::StatusOr<std::optional<PastSpeed>> FindPastSpeed(state::State& state, const config::JobSpec& spec,
                                                       const config::ModelShape& shape, bool gpu);

}  // namespace gdf::jobs

#endif  // GDF_GDFD_JOBS_PAST_SPEED_H_
