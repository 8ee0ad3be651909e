// The GPUs that this node's workers can use: what `gdf-worker --list-devices` says, asked once.
#ifndef GDF_GDFD_SUPERVISOR_GPU_INVENTORY_H_
#define GDF_GDFD_SUPERVISOR_GPU_INVENTORY_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/base/task.h"
#include "core/train/device_list.h"

namespace gdf::supervisor {

// Whether this machine may have an NVIDIA GPU: the driver is there, or a display controller of
// NVIDIA's that lacks one. `root` is "/" but in tests.
bool MayHaveGpu(const std::string& root = "/");

// On the executor.
class GpuInventory {
 public:
  // Begins to ask `program`, a gdf-worker; `on_found` is called once it has answered, or has been
  // ended at the deadline. Without a program there is no GPU, and nothing to wait for.
  GpuInventory(Executor& executor, std::optional<std::string> program,
               std::function<void()> on_found, absl::Duration deadline = absl::Seconds(30));

  // Resumes with the devices once they are known.
  Task<std::vector<train::GpuDevice>> Wait();

  // None until they are known.
  const std::vector<train::GpuDevice>& devices() const { return list_.devices; }
  // For people: why a GPU cannot be used; empty when all can, or there is none.
  const std::string& problem() const { return list_.problem; }

 private:
  Task<void> Find(std::string program, absl::Duration deadline);

  Executor& executor_;
  const std::function<void()> on_found_;
  bool known_;
  train::DeviceList list_;
  std::vector<OneShot<bool>> waiters_;
  TaskScope tasks_;
};

}  // namespace gdf::supervisor

#endif  // GDF_GDFD_SUPERVISOR_GPU_INVENTORY_H_
