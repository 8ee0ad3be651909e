#include "gdfd/jobs/device.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"

namespace gdf::jobs {

absl::StatusOr<std::optional<train::GpuDevice>> ChooseGpu(
    const schedule::JobRequest& job, uint64_t memory_bytes,
    const std::vector<train::GpuDevice>& gpus) {
  const config::NodesSpec& nodes = job.spec->nodes;
  schedule::NodeOffer offer;
  offer.free_memory_bytes = memory_bytes;
  std::string found;
  for (const train::GpuDevice& gpu : gpus) {
    offer.gpus = {{gpu.name, gpu.memory_bytes, gpu.memory_bytes}};
    const std::optional<schedule::ChosenNode> chosen = schedule::Fit(job, offer);
    if (chosen && chosen->gpu) return gpu;
    absl::StrAppend(&found, found.empty() ? "" : ", ", gpu.name, " with ",
                    HumanBytes(gpu.memory_bytes));
  }
  if (nodes.device != config::Device::kGpu) return std::nullopt;
  return absl::FailedPreconditionError(absl::StrCat(
      "the job needs a GPU with ",
      HumanBytes(std::max(nodes.gpu_memory_bytes, job.gpu_memory.total_bytes())), " and ",
      HumanBytes(std::max(nodes.memory_bytes, job.host_memory_on_gpu.total_bytes())),
      " of host memory; this node has ", found.empty() ? "no GPU that it can use" : found, " and ",
      HumanBytes(memory_bytes)));
}

}  // namespace gdf::jobs
