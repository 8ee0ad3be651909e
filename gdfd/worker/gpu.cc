#include "gdfd/worker/gpu.h"

#include <ATen/ATen.h>
#include <dlfcn.h>

#include <climits>
#include <cstdlib>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "gdfd/worker/torch_guard.h"

namespace gdf::worker {
namespace {

constexpr char kTorchCuda[] = "libtorch_cuda.so";
// What the plugin has kernels for; bf16 products need it too.
constexpr int kMinMajor = 8;

absl::StatusOr<std::vector<cuda::Device>> DevicesOf(const cuda::Plugin& plugin) {
  absl::StatusOr<std::vector<cuda::Device>> devices = plugin.Devices();
  if (!absl::IsFailedPrecondition(devices.status())) return devices;
  return absl::FailedPreconditionError(absl::StrCat(
      devices.status().message(), "; install NVIDIA's driver, version 580 (CUDA 13.0) or newer"));
}

absl::StatusOr<train::GpuDevice> Usable(int64_t index, const cuda::Device& device) {
  train::GpuDevice usable{index, device.name, absl::StrCat(device.major, ".", device.minor),
                          device.total_bytes};
  if (device.major >= kMinMajor) return usable;
  return absl::FailedPreconditionError(
      absl::StrCat(device.name, " has compute capability ", usable.compute_capability,
                   ", expected ", kMinMajor, ".0 or newer"));
}

absl::StatusOr<cuda::Plugin> LoadPlugin(const std::string& program_folder) {
  return cuda::Plugin::Load(absl::StrCat(program_folder, "/", cuda::kPluginFileName));
}

// Opens libtorch's CUDA part, which adds its kernels to libtorch's tables; gives its folder.
absl::StatusOr<std::string> LoadTorchCuda() {
  void* library = dlopen(kTorchCuda, RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat(
        "libtorch's CUDA part cannot be loaded: ", dlerror(),
        "; scripts/fetch-libtorch --cuda fetches it, then build and install again"));
  }
  char folder[PATH_MAX] = "";
  if (dlinfo(library, RTLD_DI_ORIGIN, folder) != 0) {
    return absl::InternalError(absl::StrCat(kTorchCuda, ": ", dlerror()));
  }
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(folder, nullptr), &std::free);
  return std::string(real != nullptr ? real.get() : folder);
}

}  // namespace

absl::StatusOr<GpuLibraries> GpuLibraries::Load(const std::string& program_folder) {
  GDF_ASSIGN_OR_RETURN(const cuda::Plugin plugin, LoadPlugin(program_folder));
  GDF_ASSIGN_OR_RETURN(std::string folder, LoadTorchCuda());
  return GpuLibraries(plugin, std::move(folder));
}

absl::StatusOr<std::vector<train::GpuDevice>> GpuLibraries::Open(size_t count) const {
  GDF_ASSIGN_OR_RETURN(const std::vector<cuda::Device> shown, DevicesOf(plugin_));
  if (shown.size() < count) {
    return absl::NotFoundError(absl::StrCat("CUDA shows ", shown.size(), " of the ", count, " devices"));
  }
  std::vector<train::GpuDevice> devices;
  for (size_t i = 0; i < count; ++i) {
    GDF_ASSIGN_OR_RETURN(train::GpuDevice device, Usable(static_cast<int64_t>(i), shown[i]));
    GDF_RETURN_IF_ERROR(GuardTorch(absl::StrCat("opening ", device.name), [i] {
      const at::Device where(at::kCUDA, static_cast<at::DeviceIndex>(i));
      const at::Tensor ones = at::ones({64, 64}, at::TensorOptions(where));
      TORCH_CHECK(at::matmul(ones, ones).sum().item<double>() == 64 * 64 * 64,
                  "the device computes wrongly");
    }));
    devices.push_back(std::move(device));
  }
  return devices;
}

train::DeviceList ListDevices(const std::string& program_folder) {
  train::DeviceList list;
  const auto note = [&list](const absl::Status& problem) {
    absl::StrAppend(&list.problem, list.problem.empty() ? "" : "; ", problem.message());
  };
  const absl::StatusOr<cuda::Plugin> plugin = LoadPlugin(program_folder);
  if (!plugin.ok()) {
    note(plugin.status());
    return list;
  }
  const absl::StatusOr<std::vector<cuda::Device>> devices = DevicesOf(*plugin);
  if (!devices.ok()) {
    note(devices.status());
    return list;
  }
  for (size_t i = 0; i < devices->size(); ++i) {
    absl::StatusOr<train::GpuDevice> usable = Usable(static_cast<int64_t>(i), (*devices)[i]);
    if (usable.ok()) {
      list.devices.push_back(*std::move(usable));
    } else {
      note(usable.status());
    }
  }
  if (list.devices.empty()) return list;
  if (const absl::Status loaded = LoadTorchCuda().status(); !loaded.ok()) {
    list.devices.clear();
    note(loaded);
  }
  return list;
}

}  // namespace gdf::worker
