#include "gdfd/jobs/device.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"

namespace gdf::jobs {

absl::StatusOr<std::vector<train::GpuDevice>> ChooseGpus(const schedule::JobRequest& job, uint64_t memory_bytes,
                                                         const std::vector<train::GpuDevice>& gpus) {
  schedule::NodeOffer offer;
  offer.free_memory_bytes = memory_bytes;
  for (const train::GpuDevice& gpu : gpus) offer.gpus.push_back({gpu.name, gpu.memory_bytes, gpu.memory_bytes});
  if (const std::optional<schedule::ChosenNode> fit = schedule::Fit(job, offer)) {
    std::vector<train::GpuDevice> chosen;
    for (const size_t gpu : fit->gpus) chosen.push_back(gpus[gpu]);
    return chosen;
  }
  if (job.spec->nodes.device != config::Device::kGpu) return std::vector<train::GpuDevice>();
  const schedule::Needs needs = schedule::NeedsOf(job, /*gpu=*/true);
  std::string found;
  for (const train::GpuDevice& gpu : gpus) {
    absl::StrAppend(&found, found.empty() ? "" : ", ", gpu.name, " with ", HumanBytes(gpu.memory_bytes));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the job needs ", needs.num_gpus > 1 ? absl::StrCat(needs.num_gpus, " GPUs") : "a GPU", " with ",
      HumanBytes(needs.gpu_bytes), " and ", HumanBytes(needs.host_bytes), " of host memory; this node has ", found.empty() ? "no GPU that it can use" : found, " and ",
      HumanBytes(memory_bytes)));
}

}  // namespace gdf::jobs
