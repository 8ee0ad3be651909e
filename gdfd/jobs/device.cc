#include "gdfd/jobs/device.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"

namespace gdf::jobs {

absl::StatusOr<std::vector<train::GpuDevice>> ChooseGpus(const schedule::JobRequest& job, uint64_t memory_bytes,
                                                         const std::vector<train::GpuDevice>& gpus) {
  const config::NodesSpec& nodes = job.spec->nodes;
  schedule::NodeOffer offer;
  offer.free_memory_bytes = memory_bytes;
  for (const train::GpuDevice& gpu : gpus) offer.gpus.push_back({gpu.name, gpu.memory_bytes, gpu.memory_bytes});
  const uint64_t gpu_bytes = std::max(nodes.gpu_memory_bytes, job.gpu_memory.total_bytes());
  if (const std::optional<schedule::ChosenNode> chosen = schedule::Fit(job, offer)) {
    std::vector<train::GpuDevice> fitting;
    for (const train::GpuDevice& gpu : gpus) {
      if (static_cast<int64_t>(fitting.size()) < chosen->num_gpus && gpu.memory_bytes >= gpu_bytes) fitting.push_back(gpu);
    }
    return fitting;
  }
  if (nodes.device != config::Device::kGpu) return std::vector<train::GpuDevice>();
  std::string found;
  for (const train::GpuDevice& gpu : gpus) {
    absl::StrAppend(&found, found.empty() ? "" : ", ", gpu.name, " with ", HumanBytes(gpu.memory_bytes));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the job needs ", nodes.gpus > 1 ? absl::StrCat(nodes.gpus, " GPUs") : "a GPU", " with ", HumanBytes(gpu_bytes),
      " and ", HumanBytes(std::max(nodes.memory_bytes, job.host_memory_on_gpu.total_bytes())),
      " of host memory; this node has ", found.empty() ? "no GPU that it can use" : found, " and ",
      HumanBytes(memory_bytes)));
}

}  // namespace gdf::jobs
