// job.yaml as a value: what to train, on which data, how, and on what kind of nodes.
// docs/job-spec.md documents every key, its unit, range and default; the two are kept equal by
// tests/unit/config. A JobSpec that ParseJobSpec returned is valid as a whole.
//
//   GDF_ASSIGN_OR_RETURN(JobSpec spec, ParseJobSpec(text, "job.yaml"));
#ifndef GDF_CORE_CONFIG_JOB_SPEC_H_
#define GDF_CORE_CONFIG_JOB_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/config/codec_spec.h"
#include "core/config/model_shape.h"
#include "core/config/source_location.h"

namespace gdf::config {

// A path written in job.yaml, with its place so that "no such file" can point at it. Two are equal
// when their paths are.
struct PathEntry {
  std::string path;
  SourceLocation at;

  bool operator==(const PathEntry& other) const { return path == other.path; }
};

enum class JobKind { kTrain, kFinetune };
enum class DataFormat { kText, kJsonl };
enum class TokenizerKind { kChar, kByte, kModel, kFile };  // kModel: model.from's tokenizer.json
enum class InnerOptimizer { kAdamW, kSgd };
enum class LrSchedule { kConstant, kCosine, kLinear, kWsd };
enum class Precision { kAuto, kFp32, kBf16 };  // kAuto: bf16 on a GPU, fp32 on a CPU
enum class OuterOptimizer { kNesterov, kSgd };
enum class SiteSource { kMeasured, kNamed, kNone };
enum class Device { kAuto, kCpu, kGpu };  // kAuto: a GPU where a node has one that fits
enum class WeightDtype { kFp32, kBf16 };

struct ModelSpec {
  std::optional<PathEntry> from;    // Hugging Face folder; set exactly when `shape` is not
  std::optional<ModelShape> shape;  // to be initialised at random

  bool operator==(const ModelSpec&) const = default;
};

struct DataSpec {
  DataFormat format = DataFormat::kText;
  std::vector<PathEntry> files;  // files, folders and globs; at least one
  std::string field = "text";    // of each JSON line (kJsonl)
  TokenizerKind tokenizer = TokenizerKind::kByte;
  PathEntry tokenizer_file;          // a tokenizer.json (kFile), else empty
  int64_t sequence_length = 0;       // tokens; at most the model's context
  double validation_fraction = 0.1;  // held-out tail, [0, 0.5]; 0 when validation_files is used
  std::vector<PathEntry> validation_files;

  bool operator==(const DataSpec&) const = default;
};

struct OptimizerSpec {
  InnerOptimizer kind = InnerOptimizer::kAdamW;
  double lr = 0;            // peak learning rate
  double beta1 = 0.9;       // AdamW
  double beta2 = 0.95;      // AdamW
  double eps = 1e-8;        // AdamW
  double momentum = 0;      // SGD
  double weight_decay = 0;  // decoupled; on matrices (two or more dimensions) only

  bool operator==(const OptimizerSpec&) const = default;
};

struct ScheduleSpec {
  LrSchedule kind = LrSchedule::kConstant;
  int64_t warmup_steps = 0;
  double min_lr = 0;        // at the end of cosine, linear and wsd
  int64_t decay_steps = 0;  // kWsd: length of the final decay; 0 for the others

  bool operator==(const ScheduleSpec&) const = default;
};

struct TrainSpec {
  int64_t steps = 0;                  // inner optimiser steps on each node, over all rounds
  int64_t batch_size = 0;             // sequences per node in one forward pass
  int64_t gradient_accumulation = 1;  // forward passes per inner step
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  double clip_norm = 1.0;  // L2 norm of the gradient; 0: not clipped
  Precision precision = Precision::kAuto;
  bool recompute = false;  // activations, to save memory
  int64_t threads = 0;     // CPU threads of the worker; 0: the node decides
  uint64_t seed = 0;

  bool operator==(const TrainSpec&) const = default;
};

struct OuterSpec {
  OuterOptimizer optimizer = OuterOptimizer::kNesterov;
  double lr = 0.7;
  double momentum = 0.9;  // 0 with kSgd

  bool operator==(const OuterSpec&) const = default;
};

// What a round does without, and when a job goes back by itself (schedule/anomalies.h).
struct AnomaliesSpec {
  double delta_norm = 10;    // times the others', and its own before: a delta above it is left out; 0: none is
  double loss_jump = 1;      // nats above its own before, and the others' jumps: likewise; 0: not looked at
  int64_t node_rounds = 3;   // so many of the last kWindow without a node's delta: it is taken out of the job; 0: never
  int64_t model_rounds = 3;  // so many in a row whose mean loss is loss_jump above the job's before: it goes back; 0: never
  int64_t rollbacks = 2;     // by itself; then it fails

  static constexpr int64_t kWindow = 20;
  static constexpr int64_t kMostRollbacks = 10;

  bool operator==(const AnomaliesSpec&) const = default;
};

// What a round does about members that train for longer than others (rounds/lead_training.cc).
struct LateSpec {
  double after = 0;     // times what the quorum needed: then the round goes on without the others' deltas; 0: it waits
  double weight = 0.5;  // λ, [0, 1]: a delta that comes s rounds later counts λ^s; 0: it is dropped

  bool operator==(const LateSpec&) const = default;
};

struct RoundsSpec {
  int64_t inner_steps = 1;  // H: from one exchange of a parameter to its next
  int64_t fragments = 1;    // of θ, one of which each round exchanges; divides H
  int64_t delay_steps = 0;  // τ, below H / fragments: a round's last steps, taken during its exchange
  double mixing = 0;        // α, [0, 1): share of the local parameters that a round leaves in them
  OuterSpec outer;
  // Of several the lead chooses one for each round, the first that is not slower than the others. Not empty.
  std::vector<CodecSpec> codecs = {{CodecKind::kInt8, 256}};
  uint32_t rank = 0;  // of PowerSGD: deltas go as factors in two passes, by fp32, and all at once; 0: as they are
  bool error_feedback = true;      // of what is lost of them; always false with fp32 alone
  double error_feedback_beta = 1;  // (0, 1]; 1 with kNesterov
  double clip_delta_norm = 0;      // L2 norm of Δ (with its residual); 0: not clipped
  AnomaliesSpec anomalies;
  bool steps_by_speed = false;     // slower nodes take fewer of a round's steps
  LateSpec late;
  int64_t validate_every = 1;      // rounds; also after the last
  int64_t validate_batches = 100;  // of batch_size sequences; 0: the whole held-out part
  absl::Duration round_deadline = absl::Minutes(30);  // start to commit; late nodes are left out

  bool operator==(const RoundsSpec&) const = default;
};

struct NodesSpec {
  int64_t min = 1;            // the job starts with and goes on with no fewer
  int64_t max = 1;            // `count` sets both
  uint64_t memory_bytes = 0;  // free host memory needed per node; 0: what the estimate says
  Device device = Device::kAuto;
  int64_t gpus = 0;                // per node (kGpu); 0: one
  uint64_t gpu_memory_bytes = 0;   // per GPU (kGpu); 0: what the estimate says
  std::vector<std::string> where;  // only these nodes, by name or id; empty: any
  // For exchanges of two levels: which nodes are near each other.
  SiteSource site_source = SiteSource::kMeasured;
  std::vector<std::vector<std::string>> sites;  // kNamed: by name or id; who is in none is alone

  bool operator==(const NodesSpec&) const = default;
};

struct OutputSpec {
  WeightDtype dtype = WeightDtype::kFp32;  // of exported weights
  int64_t checkpoint_every = 1;            // rounds; also after the last
  int64_t keep_checkpoints = 2;            // newest ones
  bool keep_model = true;  // the last checkpoint stays on the nodes when the job has ended
  bool keep_data = false;  // so do the dataset's chunks

  bool operator==(const OutputSpec&) const = default;
};

// What people can look at, export and go back to, beside the states by which a node comes back after a crash.
struct CheckpointsSpec {
  int64_t every = 0;  // rounds; also after the last; 0: none
  int64_t keep = 3;   // newest ones
  int64_t replicas = 3;  // members that keep θ and the outer state of each

  bool operator==(const CheckpointsSpec&) const = default;
};

struct LimitsSpec {
  absl::Duration max_wall_time = absl::ZeroDuration();  // from start to end; 0: no limit

  bool operator==(const LimitsSpec&) const = default;
};

struct JobSpec {
  std::string name;  // [a-z0-9][a-z0-9._-]{0,62}
  JobKind kind = JobKind::kTrain;
  int64_t priority = 0;  // among the jobs that wait of the same submitter; higher ones first
  ModelSpec model;
  DataSpec data;
  TrainSpec train;
  RoundsSpec rounds;
  NodesSpec nodes;
  OutputSpec output;
  CheckpointsSpec checkpoints;
  LimitsSpec limits;

  bool operator==(const JobSpec&) const = default;
};

// Parses and validates job.yaml. kInvalidArgument with every error found, one a line, each
// "FILENAME:LINE:COLUMN: what is wrong, what was expected". Opens no file that the text names.
absl::StatusOr<JobSpec> ParseJobSpec(std::string_view text, std::string_view filename);

// As above, with each of `settings`, "train.steps=400", put into the document first: the value at a
// dotted key, as YAML of one line. Adds every error to `problems`, those of a setting as of the
// origin "--set train.steps=400"; nullopt when there is one.
std::optional<JobSpec> ParseJobSpec(std::string_view text, absl::Span<const std::string> settings,
                                    Problems* problems);

// Canonical job.yaml with every key written out; ParseJobSpec of it gives `spec` again.
std::string ToYaml(const JobSpec& spec);

// What of a job does not go with its model's `shape`: data.sequence_length, for which it has no room,
// and rounds.fragments, for which it has too few parameters, if its vocabulary is set. ParseJobSpec
// checks a shape that job.yaml has.
std::vector<ShapeProblem> ProblemsWithShape(const JobSpec& spec, const ModelShape& shape);

// The first of them as kInvalidArgument.
absl::Status ValidateWithShape(const JobSpec& spec, const ModelShape& shape);

// A round is H / fragments inner steps of the job; the last one is shorter where that does not divide them.
int64_t NumRounds(const JobSpec& spec);

// Inner steps of the job, counted from 0, that one round takes: `from` up to `until`. Its delta is taken after step
// `emit`, which is after `from`; the others are the delay, of which the last round has none.
struct RoundSteps {
  int64_t from = 0;
  int64_t emit = 0;
  int64_t until = 0;
};
RoundSteps StepsOfRound(const JobSpec& spec, int64_t round);  // round: from 0, below NumRounds

// The first `steps`, at least 1, of a round's, with the delay in proportion: what a slower node takes of it.
RoundSteps FirstOf(const RoundSteps& whole, int64_t steps);

// Whether what `rounds` rounds have made is kept as a checkpoint.
bool KeepsCheckpoint(const JobSpec& spec, uint64_t rounds);
// After how many rounds the checkpoints were made that are kept after `rounds` of them; ascending.
std::vector<uint64_t> KeptCheckpoints(const JobSpec& spec, uint64_t rounds);

// Learning rate for inner step `step` (from 0), of `train.steps`:
//   warm-up   lr * step / warmup_steps                         step < warmup_steps
//   constant  lr
//   cosine    min_lr + (lr - min_lr) * (1 + cos(pi * p)) / 2   p = (step - warmup) / (steps -
//   warmup) linear    lr + (min_lr - lr) * p wsd       lr until steps - decay_steps, then linear to
//   min_lr
double LearningRateAt(const TrainSpec& train, int64_t step);

// Names as job.yaml spells them.
std::string_view ToString(JobKind kind);
std::string_view ToString(DataFormat format);
std::string_view ToString(TokenizerKind kind);
std::string_view ToString(InnerOptimizer kind);
std::string_view ToString(LrSchedule kind);
std::string_view ToString(Precision precision);
std::string_view ToString(OuterOptimizer kind);
std::string_view ToString(Device device);
std::string_view ToString(WeightDtype dtype);
std::string_view ToString(Activation activation);

}  // namespace gdf::config

#endif  // GDF_CORE_CONFIG_JOB_SPEC_H_
