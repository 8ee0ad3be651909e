// Starts the worker named by its argument, prints its process id once it is ready, and waits to be
// killed.
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "core/base/executor.h"
#include "core/base/task.h"
#include "gdfd/supervisor/worker_process.h"

namespace gdf {
namespace {

Task<void> Announce(supervisor::WorkerProcess* worker) {
  absl::StatusOr<supervisor::SandboxReport> ready = co_await worker->Ready();
  if (!ready.ok()) _exit(1);
  std::printf("%d", worker->pid());
  std::fflush(stdout);
}

int Main(const char* program) {
  const SystemClock clock;
  LoopExecutor executor(clock);
  supervisor::WorkerOptions options;
  options.program = program;
  auto worker = supervisor::WorkerProcess::Start(executor, options);
  if (!worker.ok()) return 1;
  TaskScope scope(executor);
  scope.Spawn(Announce(worker->get()));
  executor.Run();
  return 0;
}

}  // namespace
}  // namespace gdf

int main(int argc, char** argv) { return argc == 2 ? gdf::Main(argv[1]) : 2; }
