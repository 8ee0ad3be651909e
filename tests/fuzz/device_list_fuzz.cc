// links: gdf_train
// A list of devices that is accepted survives being written and read again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/train/device_list.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<gdf::train::DeviceList> list = gdf::train::ParseDeviceList(text);
  if (!list.ok()) return 0;
  const absl::StatusOr<gdf::train::DeviceList> again =
      gdf::train::ParseDeviceList(gdf::train::FormatDeviceList(*list));
  GDF_CHECK(again.ok());
  GDF_CHECK(*again == *list);
  return 0;
}
