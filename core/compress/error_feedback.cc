#include "core/compress/error_feedback.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tensor/finite.h"

namespace gdf::compress {
namespace {

// Values that are worked on together, so that they stay in the processor's cache between the steps.
// A multiple of every codec's block.
constexpr size_t kPiece = 8192;
static_assert(kPiece % CodecSpec::kMaxBlock == 0);

// Sum of squares in double, in a fixed order. Eight running sums, since one would wait for each
// addition.
double SumOfSquares(absl::Span<const float> values) {
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
  return total;
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
  GDF_ASSIGN_OR_RETURN(const double sum_of_squares, AddDelta(delta));
  last_norm_ = std::sqrt(sum_of_squares);
  const bool clips = options_.max_norm > 0.0 && last_norm_ > options_.max_norm;
  const float scale = clips ? static_cast<float>(options_.max_norm / last_norm_) : 1.0f;
  for (size_t begin = 0; begin < delta.size(); begin += kPiece) {
    const absl::Span<float> u = staged_.span().subspan(begin, kPiece);
    std::copy(u.begin(), u.end(), residual_.data() + begin);
    for (float& value : u) value *= scale;
    const size_t packed_begin = codec_->PackedSize(begin);
    const size_t packed_size = codec_->PackedSize(begin + u.size()) - packed_begin;
    const absl::Span<uint8_t> c = packed.subspan(packed_begin, packed_size);
    codec_->Encode(u, c);
    // u + (-1) * decode(c) is u - decode(c) exactly as IEEE subtraction gives it.
    GDF_RETURN_IF_ERROR(codec_->DecodeAccumulate(c, -1.0f, u));
  }
  is_staged_ = true;
  return absl::OkStatus();
}

absl::StatusOr<double> ErrorFeedback::AddDelta(absl::Span<const float> delta) {
  double sum_of_squares = 0.0;
  for (size_t begin = 0; begin < delta.size(); begin += kPiece) {
    const absl::Span<float> u = staged_.span().subspan(begin, kPiece);
    const float* e = residual_.data() + begin;
    const float* d = delta.data() + begin;
    float* sum = u.data();
    for (size_t i = 0; i < u.size(); ++i) {
      const float carried = options_.beta * e[i];
      sum[i] = carried + d[i];
    }
    // A sum with a number that is not finite is not finite.
    if (!tensor::AllFinite(u)) {
      GDF_RETURN_IF_ERROR(tensor::CheckFinite("delta", delta));
      return absl::InvalidArgumentError(
          "error feedback: delta plus residual overflows float32; lower the learning rate");
    }
    sum_of_squares += SumOfSquares(u);
  }
  return sum_of_squares;
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
