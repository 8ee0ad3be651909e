// Which of this node's GPUs a job computes on, by the rule that placed it (core/schedule).
#ifndef GDF_GDFD_JOBS_DEVICE_H_
#define GDF_GDFD_JOBS_DEVICE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/schedule/placement.h"
#include "core/train/device_list.h"

namespace gdf::jobs {

// The first of `gpus` on which `job` fits, as many as it asks for, beside `memory_bytes` of the host's; none: it
// computes on the CPU. kFailedPrecondition when it asks for GPUs and does not fit.
absl::StatusOr<std::vector<train::GpuDevice>> ChooseGpus(const schedule::JobRequest& job, uint64_t memory_bytes,
                                                         const std::vector<train::GpuDevice>& gpus);

}  // namespace gdf::jobs

#endif  // GDF_GDFD_JOBS_DEVICE_H_
