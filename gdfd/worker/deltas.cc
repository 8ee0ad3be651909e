#include "gdfd/worker/deltas.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"
#include "core/tensor/flat_buffer.h"

namespace gdf::worker {
namespace {

// Elements of [begin, begin + size) that [first, first + count) has too.
struct Overlap {
  uint64_t from = 0;
  uint64_t count = 0;
};
Overlap OverlapOf(uint64_t begin, uint64_t size, uint64_t first, uint64_t count) {
  const uint64_t from = std::max(begin, first);
  const uint64_t end = std::min(begin + size, first + count);
  return {from, end > from ? end - from : 0};
}

// The window begins at a page.
absl::Span<float> FloatsOf(absl::Span<uint8_t> window) {
  return {reinterpret_cast<float*>(window.data()), window.size() / sizeof(float)};
}

absl::Status CheckWindow(uint64_t want, uint64_t have) {
  if (want <= have) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("emit: the segment is too small for ", want, " bytes"));
}

}  // namespace

absl::Status Deltas::Part::SaveResidual(uint64_t first, absl::Span<float> out) const {
  if (feedback != nullptr) return feedback->Save(first, out);
  if (low_rank) {
    const absl::Span<const float> values = low_rank->residual().subspan(first, out.size());
    std::copy(values.begin(), values.end(), out.begin());
  } else {
    std::fill(out.begin(), out.end(), 0.0f);
  }
  return absl::OkStatus();
}

absl::Status Deltas::CheckFragment(uint64_t fragment) const {
  if (fragment < fragments_.count()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("fragment ", fragment, " of ", fragments_.count(), " was asked for"));
}

absl::Status Deltas::Apply(uint64_t fragment, train::SharedSegment theta, double mixing) {
  GDF_RETURN_IF_ERROR(CheckFragment(fragment));
  GDF_RETURN_IF_ERROR(model_.MixParameters(fragments_.begin(fragment), theta.floats(), mixing));
  Part& part = parts_[fragment];
  part.theta.emplace(std::move(theta));
  part.applied = true;
  part.drifted = mixing > 0;
  return absl::OkStatus();
}

bool Deltas::complete() const {
  return std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.applied; });
}

void Deltas::StepsTaken() {
  for (Part& part : parts_) part.drifted = true;
}

// The residual outlives a change of codec or options.
absl::Status Deltas::Use(uint64_t fragment, const compress::CodecSpec& spec,
                         const compress::ErrorFeedbackOptions& options) {
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<compress::Codec> codec, compress::Codec::Create(spec));
  std::unique_ptr<Feedback>& feedback = parts_[fragment].feedback;
  if (feedback == nullptr) feedback = MakeHostFeedback(model_, RangeOf(fragment));
  return feedback->Use(std::move(codec), options);
}

ParameterRange Deltas::RangeOf(uint64_t fragment) const { return {fragments_.begin(fragment), fragments_.size(fragment)}; }

absl::Status Deltas::Move(uint64_t fragment, std::unique_ptr<Feedback> to, const compress::CodecSpec& codec,
                          const compress::ErrorFeedbackOptions& options) {
  std::unique_ptr<Feedback>& feedback = parts_[fragment].feedback;
  GDF_ASSIGN_OR_RETURN(tensor::FlatBuffer residual, tensor::FlatBuffer::Zeros(fragments_.size(fragment)));
  GDF_RETURN_IF_ERROR(feedback->Save(0, residual.span()));
  std::swap(feedback, to);
  GDF_RETURN_IF_ERROR(Use(fragment, codec, options));
  return feedback->Restore(0, residual.span());
}

// What else is on the device stays there until it has to move.
void Deltas::LeaveDevice(const absl::Status& why) {
  Log(LogLevel::kWarning, "deltas_packed_on_the_cpu", {{"why", why}});
  session_ = nullptr;
}

// Matrices are of the whole model.
absl::Status Deltas::UseFactors(uint64_t fragment, uint32_t rank, const compress::ErrorFeedbackOptions& options) {
  Part& part = parts_[fragment];
  if (part.low_rank) return part.low_rank->SetOptions(options);
  if (fragments_.count() > 1) {
    return absl::InvalidArgumentError("emit: factors of a fragment were asked for; a job that sends factors has one");
  }
  GDF_ASSIGN_OR_RETURN(compress::LowRank low_rank, compress::LowRank::Create(model_.layout(), rank));
  GDF_ASSIGN_OR_RETURN(part.low_rank, compress::LowRankFeedback::Create(std::move(low_rank), options));
  return absl::OkStatus();
}

absl::Status Deltas::Stage(const train::EmitRequest& request, absl::Span<uint8_t> window, double* norm) {
  GDF_RETURN_IF_ERROR(CheckFragment(request.fragment));
  const absl::Span<float> values = FloatsOf(window);
  if (request.factors && request.factors->second) return Project(request, values);
  if (staged_) {
    return absl::FailedPreconditionError(
        absl::StrCat("emit: the delta of round ", staged_->round.value, " is not settled"));
  }
  Part& part = parts_[request.fragment];
  if (!part.theta) {
    return absl::FailedPreconditionError(absl::StrCat("emit: the parameters of fragment ", request.fragment,
                                                      " were not applied for round ", request.round.value));
  }
  const compress::ErrorFeedbackOptions options{static_cast<float>(request.beta), request.max_norm};
  absl::Status staged;
  if (request.factors) {
    GDF_RETURN_IF_ERROR(UseFactors(request.fragment, request.factors->rank, options));
    staged = StageFactors(part, values, norm);
  } else {
    GDF_RETURN_IF_ERROR(Use(request.fragment, request.codec, options));
    staged = StagePacked(part, request, options, window, norm);
  }
  if (absl::IsInvalidArgument(staged)) return absl::FailedPreconditionError(staged.message());
  GDF_RETURN_IF_ERROR(staged);
  staged_ = {request.round, request.fragment};
  part.theta.reset();
  return absl::OkStatus();
}

absl::Status Deltas::StagePacked(Part& part, const train::EmitRequest& request, const compress::ErrorFeedbackOptions& options,
                                 absl::Span<uint8_t> window, double* norm) {
  if (session_ != nullptr && !part.feedback->on_device()) {
    absl::StatusOr<std::unique_ptr<Feedback>> on_device = MakeDeviceFeedback(model_, RangeOf(request.fragment), session_);
    if (on_device.ok()) {
      GDF_RETURN_IF_ERROR(Move(request.fragment, *std::move(on_device), request.codec, options));
    } else {
      LeaveDevice(on_device.status());
    }
  }
  const uint64_t bytes = part.feedback->codec().PackedSize(fragments_.size(request.fragment));
  GDF_RETURN_IF_ERROR(CheckWindow(bytes, window.size()));
  const auto stage = [&] { return part.feedback->Stage(part.theta->floats(), window.subspan(0, bytes), request.rounding_seed); };
  absl::Status staged = stage();
  if (absl::IsResourceExhausted(staged) && part.feedback->on_device()) {
    LeaveDevice(staged);
    GDF_RETURN_IF_ERROR(Move(request.fragment, MakeHostFeedback(model_, RangeOf(request.fragment)), request.codec, options));
    staged = stage();
  }
  GDF_RETURN_IF_ERROR(staged);
  *norm = part.feedback->last_norm();
  return absl::OkStatus();
}

// What is given is copied first: what is made lies in its place.
absl::Status Deltas::StageFactors(Part& part, absl::Span<float> window, double* norm) {
  const compress::LowRank& low_rank = part.low_rank->low_rank();
  GDF_RETURN_IF_ERROR(CheckWindow(std::max(low_rank.num_left(), low_rank.num_right()) * sizeof(float), window.size() * sizeof(float)));
  const std::vector<float> right(window.begin(), window.begin() + static_cast<ptrdiff_t>(low_rank.num_right()));
  const auto delta = [&](uint64_t first, absl::Span<float> out) {
    return model_.CopyDelta(first, part.theta->floats().subspan(first), out);  // it is of the whole model
  };
  GDF_RETURN_IF_ERROR(part.low_rank->Stage(delta, right, window.subspan(0, low_rank.num_left())));
  *norm = part.low_rank->last_norm();
  return absl::OkStatus();
}

absl::Status Deltas::Project(const train::EmitRequest& request, absl::Span<float> window) {
  Part& part = parts_[request.fragment];
  if (!part.low_rank || !staged_ || staged_->round != request.round) {
    return absl::FailedPreconditionError(
        absl::StrCat("emit: no factors of round ", request.round.value, " wait for a second pass"));
  }
  const compress::LowRank& low_rank = part.low_rank->low_rank();
  GDF_RETURN_IF_ERROR(CheckWindow(std::max(low_rank.num_left(), low_rank.num_second()) * sizeof(float), window.size() * sizeof(float)));
  const std::vector<float> mean(window.begin(), window.begin() + static_cast<ptrdiff_t>(low_rank.num_left()));
  const absl::Status projected =
      part.low_rank->Project(mean, request.factors->seed, window.subspan(0, low_rank.num_second()));
  return absl::IsInvalidArgument(projected) ? absl::FailedPreconditionError(projected.message()) : projected;
}

absl::Status Deltas::Settle(RoundId round, train::Settlement settlement) {
  if (!staged_ || staged_->round != round) {
    return absl::FailedPreconditionError(
        absl::StrCat("settle: no delta of round ", round.value, " waits for it"));
  }
  Part& part = parts_[staged_->fragment];
  if (settlement == train::Settlement::kGivenUp) {
    part.low_rank.reset();
    part.feedback.reset();
  } else {
    const bool applied = settlement == train::Settlement::kApplied;
    GDF_RETURN_IF_ERROR(part.low_rank ? part.low_rank->Settle(applied) : part.feedback->Settle(applied));
  }
  staged_.reset();
  return absl::OkStatus();
}

absl::Status Deltas::AtTheta(absl::FunctionRef<absl::Status()> work) {
  std::vector<std::pair<uint64_t, tensor::FlatBuffer>> kept;
  for (uint64_t i = 0; i < parts_.size(); ++i) {
    if (!parts_[i].drifted || !parts_[i].theta) continue;
    GDF_ASSIGN_OR_RETURN(tensor::FlatBuffer local, tensor::FlatBuffer::Zeros(fragments_.size(i)));
    GDF_RETURN_IF_ERROR(model_.CopyParameters(fragments_.begin(i), local.span()));
    kept.emplace_back(i, std::move(local));
  }
  absl::Status done;
  for (const auto& [fragment, local] : kept) {
    done.Update(model_.MixParameters(fragments_.begin(fragment), parts_[fragment].theta->floats(), 0));
  }
  if (done.ok()) done = work();
  for (const auto& [fragment, local] : kept) {
    done.Update(model_.MixParameters(fragments_.begin(fragment), local.span(), 0));
  }
  return done;
}

absl::Status Deltas::SaveResiduals(uint64_t first, absl::Span<float> out) const {
  for (uint64_t i = 0; i < parts_.size(); ++i) {
    const uint64_t begin = fragments_.begin(i);
    const Overlap part = OverlapOf(begin, fragments_.size(i), first, out.size());
    if (part.count == 0) continue;
    GDF_RETURN_IF_ERROR(parts_[i].SaveResidual(part.from - begin, out.subspan(part.from - first, part.count)));
  }
  return absl::OkStatus();
}

absl::Status Deltas::RestoreResiduals(uint64_t first, absl::Span<const float> in, const config::RoundsSpec& rounds) {
  staged_.reset();
  for (uint64_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    if (rounds.rank > 0 && !part.low_rank) GDF_RETURN_IF_ERROR(UseFactors(i, rounds.rank, {}));
    if (rounds.rank == 0 && !part.feedback) GDF_RETURN_IF_ERROR(Use(i, rounds.codecs.front(), {}));
    const uint64_t begin = fragments_.begin(i);
    const Overlap overlap = OverlapOf(begin, fragments_.size(i), first, in.size());
    const auto from = in.subspan(overlap.count == 0 ? 0 : overlap.from - first, overlap.count);
    const uint64_t at = overlap.count == 0 ? 0 : overlap.from - begin;
    GDF_RETURN_IF_ERROR(part.low_rank ? part.low_rank->Restore(at, from) : part.feedback->Restore(at, from));
  }
  return absl::OkStatus();
}

void Deltas::ForgetResiduals() {
  staged_.reset();
  for (Part& part : parts_) {
    part.feedback.reset();
    part.low_rank.reset();
  }
}

}  // namespace gdf::worker
