#include "gdfd/jobs/input_budget.h"

#include "absl/strings/str_cat.h"
#include "core/base/text.h"

namespace gdf::jobs {

absl::Status InputBudget::Take(JobId job, const std::vector<wire::JobInput>& inputs) {
  uint64_t others = 0;
  for (const auto& [id, bytes] : taken_) {
    if (id != job) others += bytes;
  }
  uint64_t bytes = 0;
  for (const wire::JobInput& input : inputs) {
    if (input.size_bytes > cap_bytes_ - others - bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "input ", input.name, " of ", HumanBytes(input.size_bytes), " does not fit here: of ",
          HumanBytes(cap_bytes_), " for the inputs of jobs (limits.disk_cache) ",
          HumanBytes(others + bytes), " are taken by others"));
    }
    bytes += input.size_bytes;
  }
  taken_[job] = bytes;
  return absl::OkStatus();
}

}  // namespace gdf::jobs
