#include "tests/sim/sim_worker.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/byte_io.h"
#include "core/base/check.h"
#include "core/base/encoding.h"
#include "core/base/status_macros.h"
#include "core/tensor/flat_buffer.h"

namespace gdf::sim {
namespace {

constexpr float kRate = 0.05f;
constexpr float kMomentum = 0.5f;
constexpr float kNoise = 0.25f;

// In [-1, 1), with 24 bits: exact in float32.
float Uniform(uint64_t seed, uint64_t a, uint64_t b) {
  return static_cast<float>(MixSeed(seed, a, b) >> 40) * 0x1p-23f - 1.0f;
}

float Target(const SimWorkerOptions& options, uint64_t i) { return Uniform(options.seed, 1, i); }

}  // namespace

SimWorker::SimWorker(Executor& executor, SimWorkerOptions options, EmitJournal* journal, Fault fault)
    : executor_(executor),
      options_(options),
      journal_(journal),
      fault_(std::move(fault)),
      lock_(executor),
      timing_(MixSeed(options.seed, 2, options.node.digest().bytes[0])),
      theta_(InitialTheta(options)),
      fragments_(*train::Fragments::Create(options.num_params, options.fragments)),
      parts_(options.fragments),
      velocity_(options.num_params),
      residual_(options.num_params),
      exit_(executor) {}

train::LoadResult SimWorker::Loaded(const SimWorkerOptions& options) {
  train::LoadResult loaded;
  auto rest = static_cast<int64_t>(options.num_params);
  if (options.has_matrix && rest > 0) {
    const auto side = static_cast<int64_t>(std::sqrt(rest));
    const int64_t shape[] = {side, side};
    GDF_CHECK(loaded.layout.Add("matrix", shape).ok());
    rest -= side * side;
  }
  if (rest > 0) {
    const int64_t shape[] = {rest};
    GDF_CHECK(loaded.layout.Add("theta", shape).ok());
  }
  loaded.train_tokens = 1'000'000;
  loaded.valid_tokens = 1000;
  loaded.tokens_per_step = options.tokens_per_step;
  loaded.device_name = "sim";
  loaded.precision = config::Precision::kFp32;
  return loaded;
}

std::vector<float> SimWorker::InitialTheta(const SimWorkerOptions& options) {
  std::vector<float> theta(options.num_params);
  for (uint64_t i = 0; i < theta.size(); ++i) {
    theta[i] = options.constant_gradient ? 1.0f : 2.0f * Uniform(options.seed, 3, i);
  }
  return theta;
}

double SimWorker::Loss(const SimWorkerOptions& options, absl::Span<const float> theta) {
  double loss = 0;
  for (uint64_t i = 0; i < theta.size(); ++i) {
    const double off = static_cast<double>(theta[i]) - static_cast<double>(Target(options, i));
    loss += off * off / 2;
  }
  return loss / static_cast<double>(std::max<size_t>(theta.size(), 1));
}

absl::Status SimWorker::Ready(std::string_view call) const {
  if (killed_) return absl::UnavailableError("the worker was killed");
  return fault_ ? fault_(call, applied_.value_or(RoundId{})) : absl::OkStatus();
}

Task<absl::StatusOr<train::LoadResult>> SimWorker::Load(train::LoadRequest) { co_return Loaded(options_); }

Task<absl::Status> SimWorker::ReadParameters(absl::Span<float> out) {
  rounds::AsyncLock::Hold hold = co_await lock_.Acquire();
  GDF_CO_RETURN_IF_ERROR(Ready("read"));
  GDF_CHECK(out.size() == theta_.size());
  std::copy(theta_.begin(), theta_.end(), out.begin());
  co_return absl::OkStatus();
}

Task<absl::Status> SimWorker::Apply(train::ApplyRequest request) {
  rounds::AsyncLock::Hold hold = co_await lock_.Acquire();
  co_await Sleep(executor_, absl::Milliseconds(1));
  GDF_CO_RETURN_IF_ERROR(Ready("apply"));
  GDF_CHECK(request.fragment < parts_.size() && request.theta.size() == fragments_.size(request.fragment));
  const absl::Span<float> local = fragments_.Slice(absl::MakeSpan(theta_), request.fragment);
  const float mixing = static_cast<float>(request.mixing);
  for (size_t i = 0; i < local.size(); ++i) {
    local[i] = mixing == 0 ? request.theta[i] : (1 - mixing) * request.theta[i] + mixing * local[i];
  }
  parts_[request.fragment].reference.emplace(request.theta.begin(), request.theta.end());
  parts_[request.fragment].applied = true;
  applied_ = request.round;
  co_return absl::OkStatus();
}

std::vector<float> SimWorker::Theta() const {
  std::vector<float> theta = theta_;
  for (uint64_t i = 0; i < parts_.size(); ++i) {
    if (!parts_[i].reference) continue;
    const absl::Span<float> part = fragments_.Slice(absl::MakeSpan(theta), i);
    std::copy(parts_[i].reference->begin(), parts_[i].reference->end(), part.begin());
  }
  return theta;
}

// One sample of the data is one noise vector; members share the sequence of samples by turns.
void SimWorker::Step(int64_t position) {
  if (options_.constant_gradient) {
    for (float& value : theta_) value -= *options_.constant_gradient;
    return;
  }
  for (uint64_t i = 0; i < theta_.size(); ++i) {
    const float noise = kNoise * Uniform(options_.seed, 4 + static_cast<uint64_t>(position), i);
    const float gradient = theta_[i] - Target(options_, i) + noise;
    velocity_[i] = kMomentum * velocity_[i] + gradient;
    theta_[i] -= kRate * velocity_[i];
  }
}

Task<absl::StatusOr<train::RunResult>> SimWorker::Run(train::RunRequest request) {
  rounds::AsyncLock::Hold hold = co_await lock_.Acquire();
  const bool applied = std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.applied; });
  if (!applied) co_return absl::FailedPreconditionError("Run before Apply");
  if (request.from_step) step_ = *request.from_step;
  if (request.stream) stream_ = *request.stream;
  train::RunResult result;
  const absl::Duration begin = executor_.clock().Monotonic();
  while (step_ < request.until_step) {
    co_await Sleep(executor_, options_.step_time * (1 + timing_.Unit() / 2));
    GDF_CO_RETURN_IF_ERROR(Ready("run"));
    if (options_.before_step) options_.before_step(step_, theta_);
    Step(stream_.cursor.position + stream_.member_index);
    stream_.cursor.position += stream_.num_members;
    ++step_;
    ++result.steps;
    result.last_loss = Loss(options_, theta_);
    if (options_.trouble.loss_plus) result.last_loss += options_.trouble.loss_plus(*applied_);
    if (!std::isfinite(result.last_loss)) co_return absl::DataLossError("the loss is not finite");
    result.mean_loss += result.last_loss;
    if (request.on_step) request.on_step({step_, result.last_loss, kRate});
  }
  if (result.steps > 0) result.mean_loss /= static_cast<double>(result.steps);
  result.step = step_;
  result.tokens = tokens_ = result.steps * options_.tokens_per_step;
  result.compute = executor_.clock().Monotonic() - begin;
  result.cursor = stream_.cursor;
  result.cursor.position += (request.claim_until_step.value_or(step_) - step_) * stream_.num_members;
  co_return result;
}

absl::StatusOr<std::vector<uint8_t>> SimWorker::Stage(Part& part, const train::EmitRequest& request,
                                                      absl::Span<const float> delta) {
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<compress::Codec> codec, compress::Codec::Create(request.codec));
  const compress::ErrorFeedbackOptions options{static_cast<float>(request.beta), request.max_norm};
  if (!part.feedback) {
    GDF_ASSIGN_OR_RETURN(part.feedback, compress::ErrorFeedback::Create(delta.size(), codec.get(), options));
    const uint64_t begin = fragments_.begin(request.fragment);
    GDF_RETURN_IF_ERROR(part.feedback->Restore(0, absl::MakeConstSpan(residual_).subspan(begin, delta.size())));
  } else {
    GDF_RETURN_IF_ERROR(part.feedback->Use(codec.get(), options));
  }
  part.codec = std::move(codec);
  std::vector<uint8_t> packed(part.codec->PackedSize(delta.size()));
  GDF_RETURN_IF_ERROR(part.feedback->Stage(delta, absl::MakeSpan(packed), request.rounding_seed));
  return packed;
}

absl::StatusOr<std::vector<uint8_t>> SimWorker::StageFactors(Part& part, const train::EmitRequest& request,
                                                             absl::Span<const float> delta) {
  if (!part.low_rank) {
    GDF_ASSIGN_OR_RETURN(compress::LowRank low_rank, compress::LowRank::Create(Loaded(options_).layout, request.factors->rank));
    const compress::ErrorFeedbackOptions options{static_cast<float>(request.beta), request.max_norm};
    GDF_ASSIGN_OR_RETURN(part.low_rank, compress::LowRankFeedback::Create(std::move(low_rank), options));
    GDF_RETURN_IF_ERROR(part.low_rank->Restore(0, residual_));
  }
  const auto source = [delta](uint64_t first, absl::Span<float> out) {
    std::copy_n(delta.data() + first, out.size(), out.data());
    return absl::OkStatus();
  };
  std::vector<float> left(part.low_rank->low_rank().num_left());
  GDF_RETURN_IF_ERROR(part.low_rank->Stage(source, request.factors->given, absl::MakeSpan(left)));
  const absl::Span<const uint8_t> bytes = tensor::AsBytes(left);
  return std::vector<uint8_t>(bytes.begin(), bytes.end());
}

absl::StatusOr<std::vector<uint8_t>> SimWorker::Project(Part& part, const train::EmitRequest& request) {
  if (unsettled_ != request.round) return absl::FailedPreconditionError("a second pass out of turn");
  const absl::Span<const float> given = request.factors->given;
  std::vector<float> second(part.low_rank->low_rank().num_second());
  GDF_RETURN_IF_ERROR(part.low_rank->Project(given, request.factors->seed, absl::MakeSpan(second)));
  const absl::Span<const uint8_t> bytes = tensor::AsBytes(second);
  std::vector<uint8_t> packed(bytes.begin(), bytes.end());
  (*options_.projections)[{options_.node, request.round}].push_back(
      {std::vector<float>(given.begin(), given.end()), Buffer(packed)});
  return packed;
}

Task<absl::StatusOr<train::EmitResult>> SimWorker::Emit(train::EmitRequest request) {
  rounds::AsyncLock::Hold hold = co_await lock_.Acquire();
  co_await Sleep(executor_, absl::Milliseconds(1));
  const bool second = request.factors && request.factors->second;
  GDF_CO_RETURN_IF_ERROR(Ready(second ? "project" : "emit"));
  Part& part = parts_[request.fragment];
  train::EmitResult result;
  if (second) {
    GDF_CO_ASSIGN_OR_RETURN(std::vector<uint8_t> packed, Project(part, request));
    result.packed = Buffer(std::move(packed));
    co_return result;
  }
  if (!part.reference || unsettled_) co_return absl::FailedPreconditionError("Emit out of turn");
  const uint64_t begin = fragments_.begin(request.fragment);
  std::vector<float> delta(fragments_.size(request.fragment));
  for (size_t i = 0; i < delta.size(); ++i) delta[i] = (*part.reference)[i] - theta_[begin + i];
  if (options_.trouble.delta_times) {
    for (float& value : delta) value *= options_.trouble.delta_times(request.round);
  }
  GDF_CO_ASSIGN_OR_RETURN(std::vector<uint8_t> packed,
                          request.factors ? StageFactors(part, request, delta) : Stage(part, request, delta));
  part.reference.reset();
  unsettled_ = request.round;
  emitted_ = request.fragment;
  result.packed = Buffer(std::move(packed));
  result.norm = part.low_rank ? part.low_rank->last_norm() : part.feedback->last_norm();
  (*journal_)[{options_.node, request.round}].push_back(result.packed);
  if (options_.inner_states) {
    options_.inner_states->tokens[{options_.node, request.round}] = tokens_;
    options_.inner_states->settled.erase({options_.node, request.round});
  }
  co_return result;
}

Task<absl::Status> SimWorker::Settle(RoundId round, train::Settlement settlement) {
  rounds::AsyncLock::Hold hold = co_await lock_.Acquire();
  GDF_CO_RETURN_IF_ERROR(Ready("settle"));
  if (unsettled_ != round) co_return absl::FailedPreconditionError("Settle of another round");
  unsettled_.reset();
  if (options_.inner_states) options_.inner_states->settled[{options_.node, round}] = settlement;
  Part& part = parts_[emitted_];
  if (settlement == train::Settlement::kGivenUp) {
    const absl::Span<float> kept = fragments_.Slice(absl::MakeSpan(residual_), emitted_);
    std::fill(kept.begin(), kept.end(), 0.0f);
    part.feedback.reset();
    part.low_rank.reset();
    co_return absl::OkStatus();
  }
  const bool applied = settlement == train::Settlement::kApplied;
  co_return part.low_rank ? part.low_rank->Settle(applied) : part.feedback->Settle(applied);
}

Task<absl::StatusOr<train::EvalResult>> SimWorker::Evaluate(int64_t) {
  rounds::AsyncLock::Hold hold = co_await lock_.Acquire();
  co_await Sleep(executor_, options_.step_time);
  GDF_CO_RETURN_IF_ERROR(Ready("evaluate"));
  co_return train::EvalResult{Loss(options_, Theta()), 1000};
}

Task<absl::Status> SimWorker::Save(train::StateSink sink) {
  rounds::AsyncLock::Hold hold = co_await lock_.Acquire();
  co_await Sleep(executor_, absl::Milliseconds(1));
  GDF_CO_RETURN_IF_ERROR(Ready("save"));
  std::vector<float> residual = residual_;
  for (uint64_t i = 0; i < parts_.size(); ++i) {
    if (!parts_[i].feedback && !parts_[i].low_rank) continue;
    const absl::Span<const float> part = parts_[i].residual();
    std::copy(part.begin(), part.end(), residual.begin() + static_cast<ptrdiff_t>(fragments_.begin(i)));
  }
  ByteWriter out;
  out.U64(static_cast<uint64_t>(step_));
  out.Bytes(AsString(tensor::AsBytes(velocity_)));
  out.Bytes(AsString(tensor::AsBytes(absl::MakeConstSpan(residual))));
  Buffer state(out.Take());
  if (options_.inner_states) options_.inner_states->saved[options_.node].insert(HashBytes(state.span()));
  co_return co_await sink(std::move(state));
}

Task<absl::Status> SimWorker::Restore(uint64_t state_bytes, train::StateSource source) {
  rounds::AsyncLock::Hold hold = co_await lock_.Acquire();
  GDF_CO_RETURN_IF_ERROR(Ready("restore"));
  const size_t bytes = options_.num_params * sizeof(float);
  if (state_bytes != 8 + 2 * bytes) co_return absl::InvalidArgumentError("not a state of this job");
  absl::StatusOr<Buffer> state = co_await source(0, state_bytes);
  GDF_CO_RETURN_IF_ERROR(state.status());
  if (options_.inner_states && options_.inner_states->saved[options_.node].count(HashBytes(state->span())) == 0) {
    options_.inner_states->wrong.push_back(absl::StrCat("node ", options_.node.Short(), " got back an inner state that it never saved"));
  }
  uint64_t step = 0;
  std::memcpy(&step, state->span().data(), 8);
  step_ = static_cast<int64_t>(step);
  if (bytes > 0) {
    std::memcpy(velocity_.data(), state->span().data() + 8, bytes);
    std::memcpy(residual_.data(), state->span().data() + 8 + bytes, bytes);
  }
  co_return absl::OkStatus();
}

Task<absl::StatusOr<train::GenerateResult>> SimWorker::Generate(train::GenerateRequest) {
  co_return absl::UnimplementedError("the simulated worker has no language");
}

Task<absl::StatusOr<train::ExportPlan>> SimWorker::Export(config::WeightDtype) {
  train::ExportPlan plan;
  plan.layout = Loaded(options_).layout;
  co_return plan;
}

Task<train::ExitInfo> SimWorker::WaitForExit() {
  train::ExitInfo info = co_await exit_.Wait();
  co_return info;
}

void SimWorker::Kill() {
  killed_ = true;
  train::ExitInfo info;
  info.reason = train::ExitInfo::Reason::kStopped;
  exit_.Set(info);
}

}  // namespace gdf::sim
