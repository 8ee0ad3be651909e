// One task's worker as the daemon sees it: loads a job's model and data, runs inner steps, emits
// packed deltas. core/rounds is written against this; gdfd/supervisor implements it over a
// sandboxed child process.
//
//   GDF_CO_ASSIGN_OR_RETURN(LoadResult loaded, co_await session.Load(std::move(load)));
//   GDF_CO_RETURN_IF_ERROR(co_await session.Apply({round, fragment, theta}));  // of each fragment
//   GDF_CO_ASSIGN_OR_RETURN(RunResult run, co_await session.Run(std::move(fifty_steps)));
//   GDF_CO_ASSIGN_OR_RETURN(EmitResult delta, co_await session.Emit(emit));
//   GDF_CO_RETURN_IF_ERROR(co_await session.Settle(round, Settlement::kApplied));
#ifndef GDF_CORE_TRAIN_WORKER_SESSION_H_
#define GDF_CORE_TRAIN_WORKER_SESSION_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/base/buffer.h"
#include "core/base/ids.h"
#include "core/base/task.h"
#include "core/compress/codec.h"
#include "core/config/job_spec.h"
#include "core/data/sampler.h"
#include "core/tensor/layout.h"

namespace gdf::train {

// A file the worker may read: it is handed over open, read-only; the worker opens nothing by
// itself.
struct InputFile {
  // What it is, by its first part:
  //   "data/NAME", "valid/NAME"   the dataset and its held-out files, in the order of the list
  //   "model/NAME"                a file of the Hugging Face folder (config.json, *.safetensors,
  //   tokenizer.json, ...) "tokenizer/NAME"            data.tokenizer's file
  std::string name;
  std::string path;   // of a regular file on this node, or empty:
  Buffer bytes = {};  // then the contents themselves
};

// This node's place among the members that share the data, and where in it they are.
struct DataStream {
  int64_t member_index = 0;
  int64_t num_members = 1;
  data::Cursor cursor;
};

struct LoadRequest {
  std::string
      job_yaml;  // text that config::ParseJobSpec takes; its seed, precision and shapes hold
  std::vector<InputFile> inputs;  // at most kMaxInputs
  int64_t member_index = 0;
  int64_t num_members = 1;
  config::Device device = config::Device::kCpu;
  int64_t threads = 0;  // CPU threads; 0: job.yaml's, and one a core when that is 0 too
  static constexpr size_t kMaxInputs = 65536;
};

struct LoadResult {
  tensor::Layout layout;  // num_params is layout.num_params()
  int64_t vocab = 0;
  int64_t train_tokens = 0;
  int64_t valid_tokens = 0;  // 0: nothing to evaluate on
  int64_t tokens_per_step =
      0;                    // of this node: batch_size * gradient_accumulation * sequence_length
  int64_t threads = 0;      // in use
  std::string device_name;  // for people: "cpu" or the GPU's name
  config::Precision precision = config::Precision::kFp32;  // in use; never kAuto
};

// One inner step, as it happens.
struct StepProgress {
  int64_t step = 0;  // from 0 over the whole job
  double loss = 0;   // mean cross-entropy, nats per token
  double lr = 0;
};

// θ of one fragment, the part of the parameters that a round exchanges (fragments.h).
struct ApplyRequest {
  RoundId round;  // whose θ it is
  uint64_t fragment = 0;
  absl::Span<const float> theta;  // as long as the fragment
  double mixing = 0;              // α in [0, 1]: share of the local parameters that stays in them
};

struct RunRequest {
  int64_t until_step = 0;  // runs until this many inner steps are done since the job began
  // The step after which the result's cursor stands, when that is not until_step but later: the data
  // of the steps in between is this member's too.
  std::optional<int64_t> claim_until_step = {};
  std::optional<int64_t>
      from_step;  // when set, the step counter becomes this first (joined late, lost its state)
  std::optional<DataStream> stream;  // when set, draws from there from now on (the members changed)
  std::function<void(const StepProgress&)> on_step =
      {};  // on the executor; not every step when they are short
};

struct RunResult {
  int64_t step = 0;      // inner steps done since the job began
  int64_t steps = 0;     // of this call
  double mean_loss = 0;  // over them, nats per token
  double last_loss = 0;
  int64_t tokens = 0;  // trained on, in this call
  absl::Duration compute;
  data::Cursor cursor;
};

// One of the two passes by which a delta goes as low-rank factors (core/compress/low_rank.h).
struct FactorPass {
  uint32_t rank = 0;
  bool second = false;           // follows an Emit of the first, any number of times
  absl::Span<const float> given = {};  // right factors; of the second pass: the mean of everybody's left ones
  uint64_t seed = 0;             // of the second pass, at every member the same: LowRank::Orthonormalise
};

struct EmitRequest {
  RoundId round;
  uint64_t fragment = 0;
  uint64_t num_values = 0;  // that come packed: of the fragment, or factors of a pass
  compress::CodecSpec codec;
  double beta = 0;  // share of the residual carried on: spec's error_feedback_beta, or 0 without
                    // error feedback
  double max_norm = 0;  // L2 norm to which the contribution is clipped; 0: not clipped
  uint64_t rounding_seed = 0;  // of a codec that rounds stochastically
  std::optional<FactorPass> factors = {};  // these come packed instead of the delta
};

struct EmitResult {
  Buffer packed;  // Codec::PackedSize of num_values, in memory of the daemon's own; contents not
                  // trusted
  double norm = 0;  // L2 norm of the contribution before clipping
  absl::Duration compute;
};

// What becomes of the delta of an Emit.
enum class Settlement {
  kApplied,  // the residual is what the codec lost of it
  kKept,     // the residual carries all of it on
  kGivenUp,  // it is wrong: the residual becomes zero, with what it carried
};

struct EvalResult {
  double loss = 0;     // mean cross-entropy, nats per token
  int64_t tokens = 0;  // targets counted
};

struct GenerateRequest {
  std::string prompt;  // UTF-8; empty: begins with the tokenizer's first special id, or a newline
  int64_t max_tokens = 100;
  double temperature = 0;  // 0: the most probable token each time
  int64_t top_k = 0;       // 0: all
  uint64_t seed = 0;
  std::function<void(std::string_view)> on_text = {};  // new text as it comes, on the executor
};

struct GenerateResult {
  std::string text;  // the continuation, without the prompt; valid UTF-8
  int64_t tokens = 0;
  absl::Duration compute;
};

// What `transformers` needs beside the weights. The weights are written by the daemon: the tensors
// of `layout` in order, first θ, then zeros for what layout has beyond it.
struct ExportPlan {
  struct File {
    std::string name;  // a plain file name, checked
    Buffer contents;
  };
  tensor::Layout layout;
  std::vector<File> files;  // config.json, tokenizer.json, ...
};

// Take and give a saved state in pieces, in order and one at a time: it is larger than the parameters. `bytes` are
// wanted from `offset` on. An error of theirs ends the call, which gives it.
using StateSink = std::function<Task<absl::Status>(Buffer piece)>;
using StateSource = std::function<Task<absl::StatusOr<Buffer>>(uint64_t offset, uint64_t bytes)>;

// Why a worker ended.
struct ExitInfo {
  enum class Reason { kExited, kCrashed, kOutOfMemory, kHung, kBrokeProtocol, kStopped };
  Reason reason = Reason::kExited;
  int code = 0;      // exit status, when it exited
  int signal = 0;    // that killed it, or 0
  std::string text;  // for people: "killed by SIGKILL: memory limit of 4.0 GiB reached"
};

// All functions are called on the executor, and tasks finish there. Calls are served one after the
// other in the order made. Spans must stay valid until the task has finished or is destroyed. Every
// call fails with
//   kUnavailable         the worker has ended (the message is ExitInfo's text); it does not come back
//   kFailedPrecondition  called before Load succeeded
//   kResourceExhausted   out of host or GPU memory; the worker may have ended of it
// besides what is said below.
class WorkerSession {
 public:
  virtual ~WorkerSession() = default;  // ends the worker

  // Once, first. kInvalidArgument: the job, its data or its model's files cannot be used, and why.
  virtual Task<absl::StatusOr<LoadResult>> Load(LoadRequest request) = 0;

  // Copies the local parameters to `out`, [num_params]; after Load those are θ_0: model.from's or
  // the seed's.
  virtual Task<absl::Status> ReadParameters(absl::Span<float> out) = 0;

  // θ becomes the reference from which the fragment's deltas are taken, and the local parameters
  // there (1 − α) θ + α · what they were.
  virtual Task<absl::Status> Apply(ApplyRequest request) = 0;

  // Inner steps. kDataLoss: a loss or gradient is not finite; the parameters are those before that
  // step. kFailedPrecondition before the first Apply of each fragment.
  virtual Task<absl::StatusOr<RunResult>> Run(RunRequest request) = 0;

  // Packs Δ = θ_t − θ_local of the fragment with its own error feedback; θ_t is then forgotten.
  // kFailedPrecondition: Δ is not finite, no Apply since the fragment's last Emit, or the last Emit of
  // all is not settled; of a second pass, that no first one of the round waits for it.
  virtual Task<absl::StatusOr<EmitResult>> Emit(EmitRequest request) = 0;

  // Ends what Emit began.
  virtual Task<absl::Status> Settle(RoundId round, Settlement settlement) = 0;

  // Loss at θ, as applied last, over at most `max_batches` batches of the held-out part; 0: all of
  // it. From its Emit to its next Apply a fragment counts as it is locally. kFailedPrecondition when nothing is held out; kDataLoss when the loss is NaN or infinite.
  virtual Task<absl::StatusOr<EvalResult>> Evaluate(int64_t max_batches) = 0;

  // Gives the inner state without the parameters: step, optimiser moments, data cursor, residual.
  // Opaque.
  virtual Task<absl::Status> Save(StateSink sink) = 0;

  // Puts back what Save gave, `bytes` in all, on this node or a later run. After any error the inner
  // state is the one that training begins with; kInvalidArgument when it is not a state of this job.
  virtual Task<absl::Status> Restore(uint64_t bytes, StateSource source) = 0;

  // Continues a prompt with the local parameters.
  virtual Task<absl::StatusOr<GenerateResult>> Generate(GenerateRequest request) = 0;

  // `dtype` is written to config.json.
  virtual Task<absl::StatusOr<ExportPlan>> Export(config::WeightDtype dtype) = 0;

  // Resumes when the worker has ended; at once when it has already. Any number of waiters.
  virtual Task<ExitInfo> WaitForExit() = 0;

  // Ends the worker now (SIGKILL). Calls in progress fail with kUnavailable.
  virtual void Kill() = 0;
};

}  // namespace gdf::train

#endif  // GDF_CORE_TRAIN_WORKER_SESSION_H_
