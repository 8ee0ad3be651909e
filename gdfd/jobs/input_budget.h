// Room on this node's disk for the files that are put together out of chunks for jobs' workers. They
// lie beside the chunks, and have a cap of their own, of the same limit: a job may repeat one chunk
// as often as it likes.
#ifndef GDF_GDFD_JOBS_INPUT_BUDGET_H_
#define GDF_GDFD_JOBS_INPUT_BUDGET_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "core/base/ids.h"
#include "core/wire/state_commands.h"

namespace gdf::jobs {

// On the executor.
class InputBudget {
 public:
  explicit InputBudget(uint64_t cap_bytes = ~uint64_t{0}) : cap_bytes_(cap_bytes) {}

  // Room for what the record says the inputs of `job` are, until Release; again for the same job is
  // no change. kResourceExhausted, naming the limit, when that does not fit beside other jobs'.
  absl::Status Take(JobId job, const std::vector<wire::JobInput>& inputs);
  void Release(JobId job) { taken_.erase(job); }

 private:
  const uint64_t cap_bytes_;
  std::map<JobId, uint64_t> taken_;  // together at most cap_bytes_
};

}  // namespace gdf::jobs

#endif  // GDF_GDFD_JOBS_INPUT_BUDGET_H_
