#include "gdfd/worker/deltas.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
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

}  // namespace

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
  Part& part = parts_[fragment];
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<compress::Codec> codec, compress::Codec::Create(spec));
  if (part.feedback) {
    GDF_RETURN_IF_ERROR(part.feedback->Use(codec.get(), options));
  } else {
    GDF_ASSIGN_OR_RETURN(part.feedback,
                         compress::ErrorFeedback::Create(fragments_.size(fragment), codec.get(), options));
  }
  part.codec = std::move(codec);
  return absl::OkStatus();
}

absl::Status Deltas::Stage(const train::EmitRequest& request, absl::Span<uint8_t> window, double* norm) {
  GDF_RETURN_IF_ERROR(CheckFragment(request.fragment));
  if (staged_) {
    return absl::FailedPreconditionError(
        absl::StrCat("emit: the delta of round ", staged_->round.value, " is not settled"));
  }
  Part& part = parts_[request.fragment];
  if (!part.theta) {
    return absl::FailedPreconditionError(absl::StrCat("emit: the parameters of fragment ", request.fragment,
                                                      " were not applied for round ", request.round.value));
  }
  GDF_RETURN_IF_ERROR(
      Use(request.fragment, request.codec, {static_cast<float>(request.beta), request.max_norm}));
  const uint64_t begin = fragments_.begin(request.fragment);
  const uint64_t bytes = part.codec->PackedSize(fragments_.size(request.fragment));
  if (bytes > window.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("emit: the segment is too small for ", bytes, " bytes"));
  }
  const auto delta = [&](uint64_t first, absl::Span<float> out) -> absl::Status {
    GDF_RETURN_IF_ERROR(model_.CopyParameters(begin + first, out));
    const float* theta = part.theta->floats().data() + first;
    for (size_t i = 0; i < out.size(); ++i) out[i] = theta[i] - out[i];
    return absl::OkStatus();
  };
  const absl::Status staged = part.feedback->Stage(delta, window.subspan(0, bytes), request.rounding_seed);
  if (absl::IsInvalidArgument(staged)) return absl::FailedPreconditionError(staged.message());
  GDF_RETURN_IF_ERROR(staged);
  staged_ = {request.round, request.fragment};
  part.theta.reset();
  *norm = part.feedback->last_norm();
  return absl::OkStatus();
}

absl::Status Deltas::Settle(RoundId round, bool applied) {
  if (!staged_ || staged_->round != round) {
    return absl::FailedPreconditionError(
        absl::StrCat("settle: no delta of round ", round.value, " waits for it"));
  }
  GDF_RETURN_IF_ERROR(parts_[staged_->fragment].feedback->Settle(applied));
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

void Deltas::SaveResiduals(uint64_t first, absl::Span<uint8_t> out) const {
  for (uint64_t i = 0; i < parts_.size(); ++i) {
    const uint64_t begin = fragments_.begin(i);
    const Overlap part = OverlapOf(begin, fragments_.size(i), first, out.size() / sizeof(float));
    if (part.count == 0) continue;
    const absl::Span<uint8_t> to =
        out.subspan((part.from - first) * sizeof(float), part.count * sizeof(float));
    if (parts_[i].feedback) {
      const auto from = tensor::AsBytes(parts_[i].feedback->residual().subspan(part.from - begin, part.count));
      std::copy(from.begin(), from.end(), to.begin());
    } else {
      std::fill(to.begin(), to.end(), uint8_t{0});
    }
  }
}

absl::Status Deltas::RestoreResiduals(uint64_t first, absl::Span<const float> in,
                                      const compress::CodecSpec& codec) {
  staged_.reset();
  for (uint64_t i = 0; i < parts_.size(); ++i) {
    if (!parts_[i].feedback) GDF_RETURN_IF_ERROR(Use(i, codec, {}));
    const uint64_t begin = fragments_.begin(i);
    const Overlap part = OverlapOf(begin, fragments_.size(i), first, in.size());
    const auto from = in.subspan(part.count == 0 ? 0 : part.from - first, part.count);
    GDF_RETURN_IF_ERROR(parts_[i].feedback->Restore(part.count == 0 ? 0 : part.from - begin, from));
  }
  return absl::OkStatus();
}

void Deltas::ForgetResiduals() {
  staged_.reset();
  for (Part& part : parts_) part.feedback.reset();
}

}  // namespace gdf::worker
