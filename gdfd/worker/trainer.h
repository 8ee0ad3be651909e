// One node's inner loop: model, inner optimiser and data stream, advanced by steps.
// Free of libtorch's headers.
//
//   GDF_ASSIGN_OR_RETURN(auto trainer, Trainer::Create(options));
//   GDF_RETURN_IF_ERROR(trainer->model().SetParameters(theta));
//   GDF_ASSIGN_OR_RETURN(RunResult result, trainer->RunSteps(50));
#ifndef GDF_GDFD_WORKER_TRAINER_H_
#define GDF_GDFD_WORKER_TRAINER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/config/job_spec.h"
#include "core/data/sampler.h"
#include "cuda/loader.h"
#include "gdfd/worker/language_model.h"

namespace gdf::worker {

class InnerOptimizer;
class Replicas;
struct InnerState;

struct TrainerOptions {
  ModelOptions model;
  config::TrainSpec train;     // precision, recompute and threads come from `model`
  int64_t sequence_length = 0;
  // Token ids of the two parts; must outlive the trainer. `valid` may be empty.
  absl::Span<const int32_t> train_tokens;
  absl::Span<const int32_t> valid_tokens;
  // This node's place among the job's members, for the disjoint streams.
  int64_t member_index = 0;
  int64_t num_members = 1;
  data::SamplePolicy policy = data::SamplePolicy::kRandom;
  std::shared_ptr<cuda::Group> group = nullptr;  // of model.devices devices; null: they copy to each other
  // Seconds of a monotonic clock, for RunResult::seconds (0 without it).
  std::function<double()> now_seconds;
};

struct StepMetrics {
  int64_t step = 0;      // the inner step just done, counted from 0 over the whole job
  double loss = 0;       // mean cross-entropy in nats per token
  double grad_norm = 0;  // L2, before clipping
  double lr = 0;
};

struct RunResult {
  int64_t steps = 0;
  double mean_loss = 0;  // over the steps of this call
  double last_loss = 0;
  int64_t tokens = 0;    // trained on
  double seconds = 0;
};

struct EvalResult {
  double loss = 0;     // mean cross-entropy in nats per token
  int64_t tokens = 0;  // targets counted
};

// Not thread-safe. Equal options, parameters and state give bit-identical results on a CPU with
// the same number of threads. Errors as LanguageModel's.
class Trainer {
 public:
  // Parameters zero, optimiser and data stream at their beginning. kInvalidArgument: a sequence
  // longer than the context, a part shorter than one window, an id outside the vocabulary, an index
  // outside [0, num_members).
  static absl::StatusOr<std::unique_ptr<Trainer>> Create(const TrainerOptions& options);

  ~Trainer();

  LanguageModel& model() { return *model_; }

  // Inner steps done so far; the learning rate of the next one is LearningRateAt(train, step()).
  int64_t step() const { return step_; }
  // Goes on as if so many were done: for a member that joined late.
  void set_step(int64_t step) { step_ = step; }
  data::Cursor cursor() const { return sampler_.cursor(); }
  // Where it will be after step `step`, which is not before step().
  data::Cursor CursorAfter(int64_t step) const;

  // Runs `steps` optimiser steps of gradient_accumulation passes each. `on_step`, when given, sees
  // each; false from it ends the run after that step. kInvalidArgument when a loss or gradient is
  // not finite (training diverged): parameters and state are then those of before that step.
  absl::StatusOr<RunResult> RunSteps(int64_t steps,
                                     const std::function<bool(const StepMetrics&)>& on_step = {});

  // Mean loss at the present parameters over at most `max_batches` batches of the validation part,
  // evenly spaced and the same each time; 0: every target of it once. kFailedPrecondition when
  // there is no validation part.
  absl::StatusOr<EvalResult> Evaluate(int64_t max_batches);

  // Goes on in the data as member `member_index` of `num_members` from `cursor`.
  absl::Status SetStream(int64_t member_index, int64_t num_members, data::Cursor cursor);

  // The inner state: step, data cursor and the optimiser's moments (docs/formats/inner-state.md);
  // the parameters are not in it. A restored trainer with the same parameters goes on bit for bit.
  // It is moved in pieces in order, each a multiple of four bytes at `offset` of state_bytes(); the
  // first holds the whole header. RestoreState trusts nothing in `in`: kInvalidArgument when it is
  // not a state of this model and optimiser, and after any error the inner state is as created.
  uint64_t state_bytes() const;
  absl::Status SaveState(uint64_t offset, absl::Span<uint8_t> out) const;
  absl::Status RestoreState(uint64_t offset, absl::Span<const uint8_t> in);
  // Step, data cursor and moments as created.
  absl::Status ResetState();

 private:
  Trainer(const TrainerOptions& options, std::unique_ptr<LanguageModel> model,
          data::Sampler sampler);

  int64_t tokens_per_step() const {
    return options_.train.batch_size * options_.train.gradient_accumulation *
           options_.sequence_length;
  }
  absl::StatusOr<StepMetrics> RunStep();
  double ComputeGradients();
  InnerState State() const;
  absl::Status RestorePiece(uint64_t offset, absl::Span<const uint8_t> in);

  TrainerOptions options_;
  std::unique_ptr<LanguageModel> model_;
  std::unique_ptr<Replicas> replicas_;  // of model_
  std::unique_ptr<InnerOptimizer> optimizer_;
  data::Sampler sampler_;
  int64_t step_ = 0;
};

}  // namespace gdf::worker

#endif  // GDF_GDFD_WORKER_TRAINER_H_
