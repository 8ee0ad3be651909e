// The GPUs of a worker: what it takes to compute on them, opened at run time, since most machines have
// none. Free of libtorch's headers.
//
//   GDF_ASSIGN_OR_RETURN(const GpuLibraries libraries, GpuLibraries::Load(folder));
//   ... EnterSandbox ...
//   GDF_ASSIGN_OR_RETURN(const std::vector<train::GpuDevice> gpus, libraries.Open(1));
#ifndef GDF_GDFD_WORKER_GPU_H_
#define GDF_GDFD_WORKER_GPU_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/train/device_list.h"
#include "cuda/loader.h"

namespace gdf::worker {

// libgdf_cuda.so and libtorch's CUDA part. They stay open until the process ends.
class GpuLibraries {
 public:
  // Opens the plugin in `program_folder` and libtorch_cuda.so where libtorch is: before anything
  // else of libtorch is called, which would take it for a build without CUDA. Starts no thread and
  // touches no device. kFailedPrecondition, kNotFound: what is missing, and how to get it.
  static absl::StatusOr<GpuLibraries> Load(const std::string& program_folder);

  // Where libtorch's libraries are, which open others of theirs while they work.
  const std::string& folder() const { return folder_; }

  // Makes the first `count` devices that CUDA shows this process ready to compute. kFailedPrecondition,
  // kNotFound: no driver, not so many devices, or one that is too old; kResourceExhausted: one has no memory.
  absl::StatusOr<std::vector<train::GpuDevice>> Open(size_t count) const;
  // What packs deltas on the first of them. Errors of cuda::Plugin::Open.
  absl::StatusOr<cuda::Session> OpenSession() const { return plugin_.Open(0); }
  // What they sum and copy by, of two or more that are open. Errors of cuda::Plugin::OpenGroup.
  absl::StatusOr<cuda::Group> OpenGroup(size_t count) const { return plugin_.OpenGroup(count); }

 private:
  GpuLibraries(cuda::Plugin plugin, std::string folder)
      : plugin_(plugin), folder_(std::move(folder)) {}

  cuda::Plugin plugin_;
  std::string folder_;
};

// The devices that a worker started from `program_folder` can compute on. Never fails: what is in
// the way is the list's problem.
train::DeviceList ListDevices(const std::string& program_folder);

}  // namespace gdf::worker

#endif  // GDF_GDFD_WORKER_GPU_H_
