// A WorkerSession whose worker is a sandboxed child process (docs/formats/worker-protocol.md).
//
//   GDF_ASSIGN_OR_RETURN(auto worker, WorkerProcess::Start(executor, options));
//   GDF_CO_ASSIGN_OR_RETURN(SandboxReport report, co_await worker->Ready());
#ifndef GDF_GDFD_SUPERVISOR_WORKER_PROCESS_H_
#define GDF_GDFD_SUPERVISOR_WORKER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/train/shared_segment.h"
#include "core/train/worker_session.h"
#include "gdfd/supervisor/sandbox/sandbox.h"
#include "gdfd/supervisor/turn.h"
#include "gdfd/supervisor/worker_calls.h"
#include "gdfd/supervisor/worker_link.h"

namespace gdf::supervisor {

struct WorkerOptions {
  std::string program;         // gdf-worker; see FindWorkerProgram
  std::string label;           // for log lines: the job
  std::vector<int64_t> gpus;   // CUDA's numbers of those it computes on; none: on the CPU
  uint64_t memory_bytes = 0;   // 0: no limit
  std::string cgroup_parent;   // of DelegatedCgroup, or empty

  // How long a worker may be silent before it counts as hung. Loading reads and tokenizes whole
  // datasets and a step of a large model on a CPU takes minutes; the rest is quick.
  absl::Duration start_timeout = absl::Minutes(2);
  absl::Duration load_timeout = absl::Minutes(60);
  absl::Duration work_timeout = absl::Minutes(30);  // a step, a token, an evaluation
  absl::Duration call_timeout = absl::Minutes(5);
};

// gdf-worker beside the running program, as it is built, or in ../lib/gdf, as it is installed.
std::string FindWorkerProgram();
// What a gdf-worker finds in its environment: nothing of the daemon's own.
std::vector<std::string> WorkerEnvironment();

// On the executor's thread, which must live as long as the worker (the kernel ends a child with the
// thread that started it).
class WorkerProcess final : public train::WorkerSession {
 public:
  // Returns as soon as the process exists. kNotFound, kPermissionDenied: the program.
  static absl::StatusOr<std::unique_ptr<WorkerProcess>> Start(Executor& executor,
                                                              WorkerOptions options);
  ~WorkerProcess() override;

  // Waits until the worker has closed its sandbox and says what is in force. kUnavailable when it
  // did not come up.
  Task<absl::StatusOr<SandboxReport>> Ready();
  pid_t pid() const { return link_->child().pid(); }

  Task<absl::StatusOr<train::LoadResult>> Load(train::LoadRequest request) override;
  Task<absl::Status> ReadParameters(absl::Span<float> out) override;
  Task<absl::Status> Apply(train::ApplyRequest request) override;
  Task<absl::StatusOr<train::RunResult>> Run(train::RunRequest request) override;
  Task<absl::StatusOr<train::EmitResult>> Emit(train::EmitRequest request) override;
  Task<absl::Status> Settle(RoundId round, train::Settlement settlement) override;
  Task<absl::StatusOr<train::EvalResult>> Evaluate(int64_t max_batches) override;
  Task<absl::Status> Save(train::StateSink sink) override;
  Task<absl::Status> Restore(uint64_t bytes, train::StateSource source) override;
  Task<absl::StatusOr<train::GenerateResult>> Generate(train::GenerateRequest request) override;
  Task<absl::StatusOr<train::ExportPlan>> Export(config::WeightDtype dtype) override;
  Task<train::ExitInfo> WaitForExit() override;
  void Kill() override;

 private:
  WorkerProcess(Executor& executor, WorkerOptions options);

  Task<absl::Status> SendInputs(std::vector<train::InputFile> inputs);
  Task<absl::Status> ShareWindow();
  absl::Status CheckLoaded(const train::LoadResult& result) const;
  absl::Status RequireLoaded(std::string_view what) const;
  Task<void> Copy(const void* from, void* to, uint64_t bytes);
  Task<absl::StatusOr<uint64_t>> SavePiece(uint64_t offset);
  Task<absl::Status> SavePieces(train::StateSink sink);
  Task<absl::Status> RestorePieces(uint64_t bytes, train::StateSource source);
  uint64_t PieceBytes() const;  // of a state
  absl::StatusOr<train::ExportPlan> ReadExport(train::Message reply) const;

  Executor& executor_;
  const WorkerOptions options_;
  const std::shared_ptr<WorkerCalls> calls_;
  const std::shared_ptr<TurnQueue> turns_;
  uint64_t num_params_ = 0;  // 0 until loaded
  // θ_0, packed deltas and pieces of states; empty between calls.
  std::optional<train::SharedSegment> window_;
  std::unique_ptr<WorkerLink> link_;
};

}  // namespace gdf::supervisor

#endif  // GDF_GDFD_SUPERVISOR_WORKER_PROCESS_H_
