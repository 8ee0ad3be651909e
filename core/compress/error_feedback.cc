#include "core/compress/error_feedback.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tensor/finite.h"

namespace gdf::compress {
namespace {

// L2 norm in double, in a fixed order. Eight running sums, since one would wait for each addition.
double Norm(absl::Span<const float> values) {
  constexpr size_t kLanes = 8;
  double sums[kLanes] = {};
  const size_t whole = values.size() / kLanes * kLanes;
  const float* from = values.data();
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double value = from[i + lane];
      sums[lane] += value * value;
    }
  }
  for (size_t i = whole; i < values.size(); ++i) {
    const double value = from[i];
    sums[i - whole] += value * value;
  }
  double total = 0.0;
  for (const double sum : sums) total += sum;
  return std::sqrt(total);
}

}  // namespace

absl::StatusOr<ErrorFeedback> ErrorFeedback::Create(uint64_t num_params, const Codec* codec,
                                                    const ErrorFeedbackOptions& options) {
  if (!(options.beta >= 0.0f && options.beta <= 1.0f)) {
    return absl::InvalidArgumentError(
        absl::StrCat("error feedback: beta is ", options.beta, ", expected 0 to 1"));
  }
  if (!(options.max_norm >= 0.0 && std::isfinite(options.max_norm))) {
    return absl::InvalidArgumentError(
        absl::StrCat("error feedback: max_norm is ", options.max_norm,
                     ", expected a positive number, or 0 for no clipping"));
  }
  GDF_ASSIGN_OR_RETURN(tensor::FlatBuffer residual, tensor::FlatBuffer::Zeros(num_params));
  GDF_ASSIGN_OR_RETURN(tensor::FlatBuffer staged, tensor::FlatBuffer::Zeros(num_params));
  return ErrorFeedback(codec, options, std::move(residual), std::move(staged));
}

absl::Status ErrorFeedback::Stage(absl::Span<const float> delta, absl::Span<uint8_t> packed) {
  if (is_staged_) {
    return absl::FailedPreconditionError(
        "error feedback: a contribution is already staged; settle it before the next");
  }
  if (delta.size() != residual_.size() || packed.size() != codec_->PackedSize(residual_.size())) {
    return absl::InvalidArgumentError(absl::StrCat("error feedback: delta has ", delta.size(),
                                                   " values and room for ", packed.size(),
                                                   " packed bytes, expected ", residual_.size(),
                                                   " and ", codec_->PackedSize(residual_.size())));
  }
  GDF_RETURN_IF_ERROR(tensor::CheckFinite("delta", delta));
  float* e = residual_.data();
  float* u = staged_.data();
  for (size_t i = 0; i < delta.size(); ++i) {
    const float carried = options_.beta * e[i];
    u[i] = carried + delta.data()[i];
  }
  GDF_RETURN_IF_ERROR(tensor::CheckFinite("delta plus residual", staged_.span()));
  std::copy_n(u, delta.size(), e);

  last_norm_ = Norm(residual_.span());
  if (options_.max_norm > 0.0 && last_norm_ > options_.max_norm) {
    const float scale = static_cast<float>(options_.max_norm / last_norm_);
    for (float& value : staged_.span()) value *= scale;
  }
  codec_->Encode(staged_.span(), packed);
  // acc + (-1) * x is u - decode(c) exactly as IEEE subtraction gives it.
  GDF_RETURN_IF_ERROR(codec_->DecodeAccumulate(packed, -1.0f, staged_.span()));
  is_staged_ = true;
  return absl::OkStatus();
}

absl::Status ErrorFeedback::Settle(bool applied) {
  if (!is_staged_) {
    return absl::FailedPreconditionError(
        "error feedback: nothing is staged; stage a contribution before it is settled");
  }
  if (applied) std::swap(residual_, staged_);
  is_staged_ = false;
  return absl::OkStatus();
}

absl::Status ErrorFeedback::Restore(absl::Span<const float> residual) {
  if (residual.size() != residual_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("error feedback: a saved residual of ", residual.size(), " values, expected ",
                     residual_.size(), "; it belongs to another model"));
  }
  GDF_RETURN_IF_ERROR(tensor::CheckFinite("saved residual", residual));
  std::copy(residual.begin(), residual.end(), residual_.data());
  is_staged_ = false;
  return absl::OkStatus();
}

}  // namespace gdf::compress
