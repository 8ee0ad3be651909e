// The GPUs of a machine as `gdf-worker --list-devices` prints them and gdfd reads them: one JSON
// object, {"devices":[{"index","name","compute_capability","memory_bytes"}],"problem"}.
#ifndef GDF_CORE_TRAIN_DEVICE_LIST_H_
#define GDF_CORE_TRAIN_DEVICE_LIST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace gdf::train {

struct GpuDevice {
  int64_t index = 0;               // CUDA's number of it
  std::string name;                // "NVIDIA H200"
  std::string compute_capability;  // "9.0"
  uint64_t memory_bytes = 0;

  bool operator==(const GpuDevice&) const = default;
};

struct DeviceList {
  static constexpr size_t kMaxDevices = 64;
  static constexpr size_t kMaxTextBytes = size_t{64} << 10;  // of the JSON text

  std::vector<GpuDevice> devices;  // on which a worker can compute, in CUDA's order
  std::string problem;             // why there is none, or why one is left out; empty: nothing

  bool operator==(const DeviceList&) const = default;
};

// One line. Texts are cut and cleaned, and devices after kMaxDevices left out, so that
// ParseDeviceList takes it.
std::string FormatDeviceList(const DeviceList& list);

// Trusts nothing in `text`. kInvalidArgument names what is missing, mistyped or out of range.
absl::StatusOr<DeviceList> ParseDeviceList(std::string_view text);

}  // namespace gdf::train

#endif  // GDF_CORE_TRAIN_DEVICE_LIST_H_
