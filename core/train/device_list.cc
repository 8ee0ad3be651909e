#include "core/train/device_list.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/name.h"
#include "core/base/status_macros.h"
#include "core/train/protocol.h"

namespace gdf::train {
namespace {

using nlohmann::json;

constexpr int64_t kMaxIndex = 1023;
constexpr size_t kMaxNameBytes = 128;  // of a node's profile (core/wire)
constexpr size_t kMaxCapabilityBytes = 16;
constexpr size_t kMaxProblemBytes = 2048;
constexpr int64_t kMaxMemoryBytes = int64_t{1} << 50;

absl::StatusOr<GpuDevice> ParseDevice(const json& body) {
  if (!body.is_object()) return absl::InvalidArgumentError("a device is no object");
  FieldReader fields(body);
  GpuDevice device;
  device.index = fields.Int("index", 0, kMaxIndex);
  device.name = fields.String("name", kMaxNameBytes);
  device.compute_capability = fields.String("compute_capability", kMaxCapabilityBytes);
  device.memory_bytes = static_cast<uint64_t>(fields.Int("memory_bytes", 1, kMaxMemoryBytes));
  GDF_RETURN_IF_ERROR(fields.status());
  GDF_RETURN_IF_ERROR(CheckText("name", device.name, kMaxNameBytes));
  GDF_RETURN_IF_ERROR(
      CheckText("compute_capability", device.compute_capability, kMaxCapabilityBytes));
  return device;
}

}  // namespace

std::string FormatDeviceList(const DeviceList& list) {
  json devices = json::array();
  for (size_t i = 0; i < std::min(list.devices.size(), DeviceList::kMaxDevices); ++i) {
    const GpuDevice& device = list.devices[i];
    devices.push_back(
        {{"index", device.index},
         {"name", SafeText(device.name, kMaxNameBytes)},
         {"compute_capability", SafeText(device.compute_capability, kMaxCapabilityBytes)},
         {"memory_bytes", device.memory_bytes}});
  }
  const json body = {{"devices", std::move(devices)},
                     {"problem", SafeText(list.problem, kMaxProblemBytes)}};
  return body.dump() + "\n";
}

absl::StatusOr<DeviceList> ParseDeviceList(std::string_view text) {
  if (text.size() > DeviceList::kMaxTextBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a list of devices of ", text.size(),
                                                   " bytes, expected at most ",
                                                   DeviceList::kMaxTextBytes));
  }
  GDF_ASSIGN_OR_RETURN(const json body, ParseMessageBody(text));
  FieldReader fields(body);
  DeviceList list;
  const json& devices = fields.Array("devices", DeviceList::kMaxDevices);
  list.problem = fields.String("problem", kMaxProblemBytes);
  GDF_RETURN_IF_ERROR(fields.status());
  GDF_RETURN_IF_ERROR(CheckText("problem", list.problem, kMaxProblemBytes));
  std::set<int64_t> indices;
  for (const json& one : devices) {
    GDF_ASSIGN_OR_RETURN(GpuDevice device, ParseDevice(one));
    if (!indices.insert(device.index).second) {
      return absl::InvalidArgumentError(absl::StrCat("device ", device.index, " is listed twice"));
    }
    list.devices.push_back(std::move(device));
  }
  return list;
}

}  // namespace gdf::train
