// A worker without libtorch: inner SGD with momentum on a noisy quadratic, f(θ) = |θ − θ*|²/2, in float32 arithmetic
// that is the same everywhere. What it emits is written to a journal, from which tests compute what nodes must hold.
#ifndef GDF_TESTS_SIM_SIM_WORKER_H_
#define GDF_TESTS_SIM_SIM_WORKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/base/rng.h"
#include "core/compress/error_feedback.h"
#include "core/compress/low_rank_feedback.h"
#include "core/rounds/async_lock.h"
#include "core/train/fragments.h"
#include "core/train/worker_session.h"

namespace gdf::sim {

// Every contribution that was ever packed, by node and round, newest last. The disk of nobody: tests only.
using EmitJournal = std::map<std::pair<NodeId, RoundId>, std::vector<Buffer>>;

// Every second pass, by node and round, newest last: what it was given, the mean of left factors, and what it gave.
struct Projection {
  std::vector<float> given;
  Buffer packed;
};
using ProjectionJournal = std::map<std::pair<NodeId, RoundId>, std::vector<Projection>>;

// Inner states that were saved, as digests by node, and what was put back without having been. Of the newest delta of a node
// and round: the tokens of its steps, and what became of it, where its worker was told.
struct InnerJournal {
  std::map<NodeId, std::set<Digest>> saved;
  std::vector<std::string> wrong;
  std::map<std::pair<NodeId, RoundId>, int64_t> tokens;
  std::map<std::pair<NodeId, RoundId>, train::Settlement> settled;
};

// What goes wrong with a worker, by the round that it trains for.
struct WorkerTrouble {
  std::function<float(RoundId)> delta_times = {};  // its deltas are so many times what they should be
  std::function<double(RoundId)> loss_plus = {};   // its losses are by so much more than they should be
};

struct SimWorkerOptions {
  uint64_t num_params = 1000;
  uint64_t seed = 0;          // of the problem and its noise: the job's
  NodeId node;
  absl::Duration step_time = absl::Milliseconds(100);  // about: each step is up to half as long again
  int64_t tokens_per_step = 32;
  uint64_t fragments = 1;
  bool has_matrix = false;    // most parameters are a square matrix
  ProjectionJournal* projections = nullptr;  // may be none where deltas do not go as factors
  InnerJournal* inner_states = nullptr;      // none: not kept
  // Instead of the quadratic: every parameter begins at 1 and has this gradient, of which the inner SGD takes all.
  std::optional<float> constant_gradient = {};
  WorkerTrouble trouble = {};
  // Told the local parameters before each step.
  std::function<void(int64_t step, absl::Span<const float> local)> before_step = {};
};

class SimWorker : public train::WorkerSession {
 public:
  // What a call fails with; asked before each: "run", "emit", "apply", "save". `round` is the one last applied.
  using Fault = std::function<absl::Status(std::string_view call, RoundId round)>;

  SimWorker(Executor& executor, SimWorkerOptions options, EmitJournal* journal, Fault fault);

  // What Load gives: one tensor "theta" of [num_params], or with a matrix what it leaves of them.
  static train::LoadResult Loaded(const SimWorkerOptions& options);
  // θ_0: what a worker holds before the first Apply.
  static std::vector<float> InitialTheta(const SimWorkerOptions& options);
  // Loss without noise.
  static double Loss(const SimWorkerOptions& options, absl::Span<const float> theta);

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
  struct Part {  // of a fragment
    std::optional<std::vector<float>> reference;  // θ_t, from Apply to Emit
    bool applied = false;
    std::unique_ptr<compress::Codec> codec;
    std::optional<compress::ErrorFeedback> feedback;
    std::optional<compress::LowRankFeedback> low_rank;  // instead, of deltas that go as factors

    absl::Span<const float> residual() const { return low_rank ? low_rank->residual() : feedback->residual(); }
  };

  std::vector<float> Theta() const;  // the references, and local parameters where there is none
  void Step(int64_t position);
  absl::StatusOr<std::vector<uint8_t>> Stage(Part& part, const train::EmitRequest& request, absl::Span<const float> delta);
  absl::StatusOr<std::vector<uint8_t>> StageFactors(Part& part, const train::EmitRequest& request, absl::Span<const float> delta);
  absl::StatusOr<std::vector<uint8_t>> Project(Part& part, const train::EmitRequest& request);
  absl::Status Ready(std::string_view call) const;

  Executor& executor_;
  const SimWorkerOptions options_;
  EmitJournal* const journal_;
  const Fault fault_;
  rounds::AsyncLock lock_;  // calls are served one after the other
  SeededRng timing_;
  std::vector<float> theta_;
  const train::Fragments fragments_;
  std::vector<Part> parts_;
  std::optional<RoundId> applied_;
  int64_t tokens_ = 0;  // of the last Run
  int64_t step_ = 0;
  train::DataStream stream_;
  std::vector<float> velocity_;
  std::vector<float> residual_;  // carried until there is a codec to hold it
  std::optional<RoundId> unsettled_;
  uint64_t emitted_ = 0;  // the fragment of unsettled_
  bool killed_ = false;
  OneShot<train::ExitInfo> exit_;
};

}  // namespace gdf::sim

#endif  // GDF_TESTS_SIM_SIM_WORKER_H_
