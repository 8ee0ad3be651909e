// gdf-worker: one task's training process. gdfd starts it, with a socket as descriptor 3; it closes
// its sandbox before it reads a byte of any job.

#include <sys/types.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status_macros.h"
#include "core/train/message_socket.h"
#include "core/train/protocol.h"
#include "gdfd/supervisor/sandbox/sandbox.h"
#include "gdfd/version.h"
#include "gdfd/worker/language_model.h"
#include "gdfd/worker/session_server.h"

namespace gdf {
namespace {

double MonotonicSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

absl::Status Run(const supervisor::SandboxOptions& sandbox) {
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  GDF_RETURN_IF_ERROR(worker::WarmUpLibtorch());
  GDF_ASSIGN_OR_RETURN(const supervisor::SandboxReport report, supervisor::EnterSandbox(sandbox));
  train::MessageSocket socket{train::UniqueFd(train::kWorkerSocketFd)};
  train::Message hello;
  hello.body = {{"hello", train::kProtocolVersion},
                {"in_force", report.in_force},
                {"missing", report.missing}};
  GDF_RETURN_IF_ERROR(socket.Send(std::move(hello)));
  worker::SessionServer server(socket, {cores, MonotonicSeconds});
  return server.Serve();
}

int Main(int argc, char** argv) {
  supervisor::SandboxOptions sandbox;
  CLI::App app("GDF's training process. It is started by gdfd, not by hand.");
  app.set_version_flag("--version", std::string("gdf-worker ") + kVersion);
  app.add_option("--parent", sandbox.parent, "process id of the daemon")->required();
  app.add_flag("--gpu", sandbox.gpu, "leave the GPU's devices open");
  app.add_option("--library-folder", sandbox.library_folders, "stays readable, with --gpu");
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Run(sandbox);
  if (status.ok()) return 0;
  std::fprintf(stderr, "gdf-worker: %s\n", status.ToString().c_str());
  return absl::IsResourceExhausted(status) ? train::kExitOutOfMemory : 1;
}

}  // namespace
}  // namespace gdf

int main(int argc, char** argv) { return gdf::Main(argc, argv); }
