// The device that a program of tests/gpu is for: the first one, through the plugin beside the program, so that both can
// be carried to another machine.
#ifndef GDF_TESTS_GPU_DEVICE_H_
#define GDF_TESTS_GPU_DEVICE_H_

#include <cstdlib>
#include <iostream>
#include <utility>
#include <vector>

#include "cuda/loader.h"
#include "gdfd/program_folder.h"

namespace gdf::cuda {

struct OpenDevice {
  Device description;
  Session session;
};

// Ends the program when `status` is an error: with 77, which is a visible skip, where it says that there is no device.
inline void RequireDevice(const absl::Status& status, bool is_skip) {
  if (status.ok()) return;
  std::cerr << (is_skip ? "skipped: no device: " : "error: ") << status << std::endl;
  std::exit(is_skip ? 77 : 1);
}

inline OpenDevice OpenFirstDevice() {
  const absl::StatusOr<Plugin> plugin = Plugin::Load(ProgramFolder() + "/" + kPluginFileName);
  RequireDevice(plugin.status(), false);
  const absl::StatusOr<std::vector<Device>> devices = plugin->Devices();
  RequireDevice(devices.status(), absl::IsNotFound(devices.status()) || absl::IsFailedPrecondition(devices.status()));
  absl::StatusOr<Session> session = plugin->Open(0);
  RequireDevice(session.status(), false);
  return {devices->front(), *std::move(session)};
}

}  // namespace gdf::cuda

#endif  // GDF_TESTS_GPU_DEVICE_H_
