#include "gdfd/supervisor/gpu_inventory.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/name.h"
#include "gdfd/supervisor/program_output.h"
#include "gdfd/supervisor/worker_process.h"

namespace gdf::supervisor {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxProblemBytes = 1024;  // a line of `status`

std::string FirstLine(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

absl::StatusOr<train::DeviceList> Read(const absl::StatusOr<std::string>& text) {
  if (!text.ok()) return text.status();
  return train::ParseDeviceList(*text);
}

}  // namespace

bool MayHaveGpu(const std::string& root) {
  const fs::path base(root);
  std::error_code error;
  for (const char* path : {"dev/nvidiactl", "dev/nvidia0", "proc/driver/nvidia/version"}) {
    if (fs::exists(base / path, error)) return true;
  }
  fs::directory_iterator device(base / "sys/bus/pci/devices", error);
  for (; !error && device != fs::directory_iterator(); device.increment(error)) {
    // PCI's numbers of the vendor and of the class.
    if (FirstLine(device->path() / "vendor") == "0x10de" &&
        FirstLine(device->path() / "class").rfind("0x03", 0) == 0) {
      return true;
    }
  }
  return false;
}

GpuInventory::GpuInventory(Executor& executor, std::optional<std::string> program,
                           std::function<void()> on_found, absl::Duration deadline)
    : executor_(executor),
      on_found_(std::move(on_found)),
      known_(!program.has_value()),
      tasks_(executor) {
  if (program) tasks_.Spawn(Find(*std::move(program), deadline));
}

Task<std::vector<train::GpuDevice>> GpuInventory::Wait() {
  if (!known_) {
    OneShot<bool> known(executor_);
    waiters_.push_back(known);
    co_await known.Wait();
  }
  co_return list_.devices;
}

Task<void> GpuInventory::Find(std::string program, absl::Duration deadline) {
  OutputRequest request;
  request.program = std::move(program);
  request.arguments = {"--list-devices"};
  request.environment = WorkerEnvironment();
  request.label = "list-devices";
  request.deadline = deadline;
  request.max_bytes = train::DeviceList::kMaxTextBytes;
  absl::StatusOr<std::string> text = co_await ReadOutput(executor_, std::move(request));
  absl::StatusOr<train::DeviceList> list = Read(text);
  if (list.ok()) {
    list_ = *std::move(list);
  } else {
    list_.problem = SafeText(absl::StrCat("GPUs cannot be listed: ", list.status().message()),
                             kMaxProblemBytes);
  }
  Log(LogLevel::kInfo, "gpus", {{"devices", list_.devices.size()}, {"problem", list_.problem}});
  known_ = true;
  for (const OneShot<bool>& waiter : std::exchange(waiters_, {})) waiter.Set(true);
  on_found_();
}

}  // namespace gdf::supervisor
