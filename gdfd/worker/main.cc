// gdf-worker: one task's training process. gdfd starts it, with a socket as descriptor 3; it closes
// its sandbox before it reads a byte of any job.

#include <sys/types.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <new>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status_macros.h"
#include "core/train/device_list.h"
#include "core/train/message_socket.h"
#include "core/train/protocol.h"
#include "gdfd/program_folder.h"
#include "gdfd/supervisor/sandbox/sandbox.h"
#include "gdfd/version.h"
#include "gdfd/worker/gpu.h"
#include "gdfd/worker/language_model.h"
#include "gdfd/worker/session_server.h"

namespace gdf {
namespace {

constexpr int kExitUsage = 4;  // as gdfd's and gdfctl's

double MonotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Null, and a line for the daemon's log, where the devices have to do without NCCL.
std::shared_ptr<cuda::Group> OpenGroup(const worker::GpuLibraries& gpu, size_t count) {
  absl::StatusOr<cuda::Group> group = gpu.OpenGroup(count);
  if (group.ok()) return std::make_shared<cuda::Group>(*std::move(group));
  std::fprintf(stderr, "the GPUs copy to each other without NCCL: %s\n", group.status().ToString().c_str());
  return nullptr;
}

// Null, and a line for the daemon's log, where deltas have to be packed on the CPU.
std::shared_ptr<cuda::Session> OpenPacker(const worker::GpuLibraries& gpu) {
  absl::StatusOr<cuda::Session> session = gpu.OpenSession();
  if (session.ok()) return std::make_shared<cuda::Session>(*std::move(session));
  std::fprintf(stderr, "deltas are packed on the CPU: %s\n", session.status().ToString().c_str());
  return nullptr;
}

absl::Status Run(supervisor::SandboxOptions sandbox) {
  worker::SessionOptions session;
  session.default_threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  session.now_seconds = MonotonicSeconds;
  std::optional<worker::GpuLibraries> gpu;
  if (sandbox.gpus > 0) {
    GDF_ASSIGN_OR_RETURN(gpu, worker::GpuLibraries::Load(ProgramFolder()));
    sandbox.library_folders = {gpu->folder()};
  }
  GDF_RETURN_IF_ERROR(worker::WarmUpLibtorch());
  GDF_ASSIGN_OR_RETURN(const supervisor::SandboxReport report, supervisor::EnterSandbox(sandbox));
  if (gpu) {  // behind the sandbox, since the driver starts threads
    GDF_ASSIGN_OR_RETURN(session.gpus, gpu->Open(sandbox.gpus));
    session.packer = OpenPacker(*gpu);
    if (session.gpus.size() > 1) session.group = OpenGroup(*gpu, session.gpus.size());
  }
  train::MessageSocket socket{train::UniqueFd(train::kWorkerSocketFd)};
  train::Message hello;
  hello.body = {{"hello", train::kProtocolVersion},
                {"in_force", report.in_force},
                {"missing", report.missing}};
  GDF_RETURN_IF_ERROR(socket.Send(std::move(hello)));
  worker::SessionServer server(socket, std::move(session));
  return server.Serve();
}

int Main(int argc, char** argv) {
  supervisor::SandboxOptions sandbox;
  CLI::App app("GDF's training process. It is started by gdfd, not by hand.");
  app.set_version_flag("--version", std::string("gdf-worker ") + kVersion);
  bool list_devices = false;
  auto* parent = app.add_option("--parent", sandbox.parent, "process id of the daemon");
  app.add_option("--gpus", sandbox.gpus, "compute on so many GPUs, the first that CUDA shows")
      ->check(CLI::Range(size_t{1}, train::DeviceList::kMaxDevices))
      ->needs(parent);
  app.add_flag("--list-devices", list_devices,
               "print the GPUs that it can compute on, as JSON, and exit")
      ->excludes(parent);
  app.require_option(1, 2);
  if (argc == 1) {
    std::fputs("gdf-worker: it is started by gdfd, not by hand; see gdf-worker --help\n", stderr);
    return kExitUsage;
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  if (list_devices) {
    std::fputs(train::FormatDeviceList(worker::ListDevices(ProgramFolder())).c_str(), stdout);
    return std::fflush(stdout) == 0 ? 0 : 1;
  }
  try {
    const absl::Status status = Run(sandbox);
    if (status.ok()) return 0;
    std::fprintf(stderr, "gdf-worker: %s\n", status.ToString().c_str());
    return absl::IsResourceExhausted(status) ? train::kExitOutOfMemory : 1;
  } catch (const std::bad_alloc&) {  // outside of libtorch, where nothing could go on
    return train::kExitOutOfMemory;
  }
}

}  // namespace
}  // namespace gdf

int main(int argc, char** argv) { return gdf::Main(argc, argv); }
