#include "gdfd/worker/trainer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "gdfd/worker/inner_state.h"
#include "gdfd/worker/model/decoder.h"
#include "gdfd/worker/optimizer.h"
#include "gdfd/worker/params/parameters.h"
#include "gdfd/worker/replicas.h"
#include "gdfd/worker/torch_guard.h"

namespace gdf::worker {
namespace {

// torch.nn.utils.clip_grad_norm_ adds it to the norm.
constexpr double kClipEpsilon = 1e-6;

struct Windows {
  at::Tensor inputs;   // [batch, sequence_length] int64
  at::Tensor targets;
};

Windows MakeWindows(absl::Span<const int32_t> tokens, absl::Span<const int64_t> starts,
                    int64_t length) {
  const int64_t batch = static_cast<int64_t>(starts.size());
  Windows w{at::empty({batch, length}, at::kLong), at::empty({batch, length}, at::kLong)};
  const auto span = [](const at::Tensor& t) {
    return absl::MakeSpan(t.data_ptr<int64_t>(), static_cast<size_t>(t.numel()));
  };
  data::CopyWindows(tokens, starts, length, span(w.inputs), span(w.targets));
  return w;
}

absl::Status CheckTokens(absl::string_view part, absl::Span<const int32_t> tokens, int64_t vocab) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocab) {
      return absl::InvalidArgumentError(absl::StrCat("token ", i, " of the ", part, " data is id ",
                                                     tokens[i], ", the model's vocabulary has ",
                                                     vocab));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const TrainerOptions& options) {
  const int64_t context = config::Context(options.model.shape);
  if (options.sequence_length < 1 || options.sequence_length > context) {
    return absl::InvalidArgumentError(absl::StrCat("the sequence length is ",
                                                   options.sequence_length,
                                                   ", expected 1 to the model's context of ",
                                                   context));
  }
  if (options.train.batch_size < 1 || options.train.gradient_accumulation < 1) {
    return absl::InvalidArgumentError("batch_size and gradient_accumulation must be at least 1");
  }
  if (options.model.devices < 1 || options.model.devices > options.train.batch_size) {
    return absl::InvalidArgumentError(absl::StrCat("a batch of ", options.train.batch_size, " cannot be dealt out over ",
                                                   options.model.devices, " devices"));
  }
  const int64_t vocab = config::Vocab(options.model.shape);
  GDF_RETURN_IF_ERROR(CheckTokens("training", options.train_tokens, vocab));
  return CheckTokens("validation", options.valid_tokens, vocab);
}

absl::StatusOr<data::Sampler> MakeSampler(const TrainerOptions& options, data::Cursor cursor) {
  return data::Sampler::Create({.corpus_len = static_cast<int64_t>(options.train_tokens.size()),
                                .seq_len = options.sequence_length,
                                .seed = options.train.seed,
                                .member_index = options.member_index,
                                .num_members = options.num_members,
                                .policy = options.policy},
                               cursor);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Trainer>> Trainer::Create(const TrainerOptions& options) {
  GDF_ASSIGN_OR_RETURN(auto model, LanguageModel::Create(options.model));
  GDF_RETURN_IF_ERROR(CheckOptions(options));  // with a shape that is valid
  GDF_ASSIGN_OR_RETURN(data::Sampler sampler, MakeSampler(options, {}));
  std::unique_ptr<Trainer> trainer(new Trainer(options, std::move(model), std::move(sampler)));
  GDF_RETURN_IF_ERROR(GuardTorch("creating the optimiser", [&] {
    trainer->replicas_ = std::make_unique<Replicas>(*trainer->model_, options.group);
    const Decoder& decoder = trainer->model_->decoder();
    trainer->optimizer_ = std::make_unique<InnerOptimizer>(
        options.train.optimizer, decoder.parameters(), decoder.gradients(),
        NumMatrixElems(trainer->model_->layout()));
  }));
  return trainer;
}

Trainer::Trainer(const TrainerOptions& options, std::unique_ptr<LanguageModel> model,
                 data::Sampler sampler)
    : options_(options), model_(std::move(model)), sampler_(std::move(sampler)) {}

Trainer::~Trainer() = default;

absl::Status Trainer::SetStream(int64_t member_index, int64_t num_members, data::Cursor cursor) {
  TrainerOptions changed = options_;
  changed.member_index = member_index;
  changed.num_members = num_members;
  GDF_ASSIGN_OR_RETURN(sampler_, MakeSampler(changed, cursor));
  options_ = std::move(changed);
  return absl::OkStatus();
}

data::Cursor Trainer::CursorAfter(int64_t step) const {
  data::Sampler ahead = sampler_;
  std::vector<int64_t> starts(static_cast<size_t>(options_.train.batch_size));
  const int64_t passes = (step - step_) * options_.train.gradient_accumulation;
  for (int64_t pass = 0; pass < passes; ++pass) ahead.Next(absl::MakeSpan(starts));
  return ahead.cursor();
}

// Forward and backward passes of one step: the gradients are those of the mean loss over all
// tokens of the step, which is returned.
double Trainer::ComputeGradients() {
  const int64_t passes = options_.train.gradient_accumulation;
  std::vector<int64_t> starts(static_cast<size_t>(options_.train.batch_size));
  const double scale = 1.0 / static_cast<double>(tokens_per_step());
  double loss = 0;
  for (int64_t pass = 0; pass < passes; ++pass) {
    sampler_.Next(absl::MakeSpan(starts));
    const Windows w = MakeWindows(options_.train_tokens, starts, options_.sequence_length);
    loss += replicas_->TrainPass(w.inputs, w.targets, scale, pass == 0 ? GradMode::kSet : GradMode::kAdd);
  }
  replicas_->SumGradients();
  return loss * scale;
}

absl::StatusOr<StepMetrics> Trainer::RunStep() {
  StepMetrics metrics{.step = step_, .lr = config::LearningRateAt(options_.train, step_)};
  const data::Cursor before = sampler_.cursor();
  GDF_RETURN_IF_ERROR(GuardTorch("a training step", [&] {
    metrics.loss = ComputeGradients();
    at::Tensor gradients = model_->decoder().gradients();
    metrics.grad_norm = at::linalg_vector_norm(gradients, 2).item<double>();
    if (!std::isfinite(metrics.loss) || !std::isfinite(metrics.grad_norm)) return;
    const double clip = options_.train.clip_norm;
    const double factor = clip / (metrics.grad_norm + kClipEpsilon);
    if (clip > 0 && factor < 1) gradients.mul_(factor);
    optimizer_->Step(metrics.lr, step_);
    model_->decoder().ParametersChanged();
  }));
  if (!std::isfinite(metrics.loss) || !std::isfinite(metrics.grad_norm)) {
    GDF_RETURN_IF_ERROR(SetStream(options_.member_index, options_.num_members, before));
    return absl::InvalidArgumentError(absl::StrCat(
        "training diverged at step ", step_, ": loss ", metrics.loss, ", gradient norm ",
        metrics.grad_norm, ", learning rate ", metrics.lr, "; try a lower learning rate"));
  }
  ++step_;
  return metrics;
}

absl::StatusOr<RunResult> Trainer::RunSteps(
    int64_t steps, const std::function<bool(const StepMetrics&)>& on_step) {
  RunResult result;
  const double started = options_.now_seconds ? options_.now_seconds() : 0;
  double sum = 0;
  while (result.steps < steps) {
    GDF_ASSIGN_OR_RETURN(const StepMetrics metrics, RunStep());
    ++result.steps;
    result.tokens += tokens_per_step();
    result.last_loss = metrics.loss;
    sum += metrics.loss;
    if (on_step && !on_step(metrics)) break;
  }
  if (result.steps > 0) result.mean_loss = sum / static_cast<double>(result.steps);
  result.seconds = options_.now_seconds ? options_.now_seconds() - started : 0;
  return result;
}

absl::StatusOr<EvalResult> Trainer::Evaluate(int64_t max_batches) {
  const int64_t length = options_.sequence_length;
  const int64_t valid_len = static_cast<int64_t>(options_.valid_tokens.size());
  const int64_t batch = options_.train.batch_size;
  const std::vector<data::EvalWindow> windows =
      max_batches == 0 ? data::AllEvalWindows(valid_len, length)
                       : data::QuickEvalWindows(valid_len, length, max_batches * batch);
  if (windows.empty()) {
    return absl::FailedPreconditionError(
        "there is no validation part of at least one sequence: set data.validation_fraction");
  }
  EvalResult result;
  double sum = 0;
  GDF_RETURN_IF_ERROR(GuardTorch("validation", [&] {
    for (size_t first = 0; first < windows.size(); first += static_cast<size_t>(batch)) {
      const size_t count = std::min(windows.size() - first, static_cast<size_t>(batch));
      std::vector<int64_t> starts(count);
      for (size_t i = 0; i < count; ++i) starts[i] = windows[first + i].start;
      Windows w = MakeWindows(options_.valid_tokens, starts, length);
      for (size_t i = 0; i < count; ++i) {
        const int64_t skip = windows[first + i].skip;
        w.targets.select(0, static_cast<int64_t>(i)).narrow(0, 0, skip).fill_(-1);
        result.tokens += length - skip;
      }
      sum += replicas_->LossSum(w.inputs, w.targets);
    }
  }));
  result.loss = sum / static_cast<double>(result.tokens);
  if (!std::isfinite(result.loss)) {
    return absl::InvalidArgumentError(absl::StrCat("the validation loss is ", result.loss,
                                                   ": training diverged; try a lower learning rate"));
  }
  return result;
}

InnerState Trainer::State() const {
  return {.optimizer = options_.train.optimizer.kind,
          .step = step_,
          .cursor = sampler_.cursor(),
          .num_moments = optimizer_->moments().size(),
          .num_params = model_->num_params()};
}

uint64_t Trainer::state_bytes() const { return State().num_bytes(); }

absl::Status Trainer::SaveState(uint64_t offset, absl::Span<uint8_t> out) const {
  const InnerState state = State();
  const auto header = state.Header();
  for (uint64_t at = offset; at < header.size() && at - offset < out.size(); ++at) {
    out[at - offset] = header[at];
  }
  return state.VisitMoments(
      offset, out, [this](size_t moment, uint64_t first, absl::Span<uint8_t> part) {
        return GuardTorch("saving the inner state", [&] {
          const auto count = static_cast<int64_t>(part.size() / sizeof(float));
          at::from_blob(part.data(), {count}, at::kFloat)
              .copy_(optimizer_->moments()[moment].narrow(0, static_cast<int64_t>(first), count));
        });
      });
}

absl::Status Trainer::RestoreState(uint64_t offset, absl::Span<const uint8_t> in) {
  absl::Status restored = RestorePiece(offset, in);
  if (!restored.ok()) ResetState().IgnoreError();  // the first error says more
  return restored;
}

absl::Status Trainer::RestorePiece(uint64_t offset, absl::Span<const uint8_t> in) {
  InnerState state = State();
  if (offset == 0) {
    GDF_ASSIGN_OR_RETURN(state, InnerState::ReadHeader(in, state));
    GDF_RETURN_IF_ERROR(
        SetStream(options_.member_index, options_.num_members, state.cursor));
    step_ = state.step;
  }
  return state.VisitMoments(
      offset, in,
      [this](size_t moment, uint64_t first, absl::Span<const uint8_t> part) -> absl::Status {
        GDF_RETURN_IF_ERROR(InnerState::CheckMoment(moment, part));
        return GuardTorch("restoring the inner state", [&] {
          const auto count = static_cast<int64_t>(part.size() / sizeof(float));
          optimizer_->moments()[moment]
              .narrow(0, static_cast<int64_t>(first), count)
              .copy_(at::from_blob(const_cast<uint8_t*>(part.data()), {count}, at::kFloat));
        });
      });
}

absl::Status Trainer::ResetState() {
  GDF_RETURN_IF_ERROR(SetStream(options_.member_index, options_.num_members, {}));
  step_ = 0;
  return GuardTorch("resetting the inner state", [&] {
    for (at::Tensor moment : optimizer_->moments()) moment.zero_();
  });
}

}  // namespace gdf::worker
