#include "core/compress/low_rank_feedback.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tensor/finite.h"

namespace gdf::compress {
namespace {

absl::Status CheckRoom(const char* what, size_t have, uint64_t want) {
  if (have == want) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("low-rank delta: ", what, " of ", have, " values, expected ", want));
}

absl::Status CheckFactors(absl::Span<const float> factors) {
  if (tensor::AllFinite(factors)) return absl::OkStatus();
  return absl::InvalidArgumentError("low-rank delta: a factor overflows float32; lower the learning rate");
}

}  // namespace

absl::StatusOr<LowRankFeedback> LowRankFeedback::Create(LowRank low_rank, const ErrorFeedbackOptions& options) {
  GDF_ASSIGN_OR_RETURN(Residual residual, Residual::Create(low_rank.num_params(), options));
  return LowRankFeedback(std::move(low_rank), std::move(residual));
}

absl::Status LowRankFeedback::SetOptions(const ErrorFeedbackOptions& options) {
  if (is_staged_) return absl::FailedPreconditionError("low-rank delta: one is staged; settle it first");
  return residual_.SetOptions(options);
}

absl::Status LowRankFeedback::Stage(DeltaSource delta, absl::Span<const float> right, absl::Span<float> left) {
  if (is_staged_) return absl::FailedPreconditionError("low-rank delta: one is already staged; settle it first");
  GDF_RETURN_IF_ERROR(CheckRoom("right factors", right.size(), low_rank_.num_right()));
  GDF_RETURN_IF_ERROR(CheckRoom("room for left factors", left.size(), low_rank_.num_left()));
  GDF_RETURN_IF_ERROR(tensor::CheckFinite("right factors", right));
  GDF_RETURN_IF_ERROR(residual_.Add(delta, [](uint64_t, absl::Span<const float>) {}));
  low_rank_.TimesRight(residual_.values(), residual_.scale(), right, left);
  GDF_RETURN_IF_ERROR(CheckFactors(left));
  is_staged_ = true;
  return absl::OkStatus();
}

absl::Status LowRankFeedback::Project(absl::Span<const float> mean, uint64_t seed, absl::Span<float> second) {
  if (!is_staged_) return absl::FailedPreconditionError("low-rank delta: nothing is staged to be projected");
  GDF_RETURN_IF_ERROR(CheckRoom("left factors", mean.size(), low_rank_.num_left()));
  GDF_RETURN_IF_ERROR(CheckRoom("room for right factors", second.size(), low_rank_.num_second()));
  GDF_RETURN_IF_ERROR(tensor::CheckFinite("left factors", mean));
  is_projected_ = false;
  left_.assign(mean.begin(), mean.end());
  low_rank_.Orthonormalise(seed, absl::MakeSpan(left_));
  low_rank_.TimesLeft(residual_.values(), residual_.scale(), left_, second);
  GDF_RETURN_IF_ERROR(CheckFactors(second));
  second_.assign(second.begin(), second.end());
  is_projected_ = true;
  return absl::OkStatus();
}

absl::Status LowRankFeedback::Settle(bool applied) {
  if (!is_staged_) return absl::FailedPreconditionError("low-rank delta: nothing is staged");
  if (applied) {
    const absl::Span<float> u = residual_.Take(0, residual_.num_params());
    if (is_projected_) {
      low_rank_.Accumulate(left_, second_, -1.0f, u);
    } else {
      std::fill(u.begin(), u.end(), 0.0f);
    }
  }
  Drop();
  return absl::OkStatus();
}

absl::Status LowRankFeedback::Restore(uint64_t first, absl::Span<const float> residual) {
  GDF_RETURN_IF_ERROR(residual_.Restore(first, residual));
  Drop();
  return absl::OkStatus();
}

void LowRankFeedback::Drop() {
  left_ = {};
  second_ = {};
  is_projected_ = is_staged_ = false;
}

}  // namespace gdf::compress
