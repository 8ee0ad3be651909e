#include "core/compress/residual.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/compress/double_dot.h"
#include "core/config/codec_spec.h"
#include "core/tensor/finite.h"

namespace gdf::compress {
namespace {

static_assert(Residual::kPiece % config::CodecSpec::kMaxBlock == 0);

}  // namespace

absl::Status CheckOptions(const ErrorFeedbackOptions& options) {
  if (!(options.beta >= 0.0f && options.beta <= 1.0f)) {
    return absl::InvalidArgumentError(
        absl::StrCat("error feedback: beta is ", options.beta, ", expected 0 to 1"));
  }
  if (!(options.max_norm >= 0.0 && std::isfinite(options.max_norm))) {
    return absl::InvalidArgumentError(
        absl::StrCat("error feedback: max_norm is ", options.max_norm,
                     ", expected a positive number, or 0 for no clipping"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Residual> Residual::Create(uint64_t num_params, const ErrorFeedbackOptions& options) {
  GDF_RETURN_IF_ERROR(CheckOptions(options));
  GDF_ASSIGN_OR_RETURN(tensor::FlatBuffer values, tensor::FlatBuffer::Zeros(num_params));
  return Residual(options, std::move(values));
}

absl::Status Residual::SetOptions(const ErrorFeedbackOptions& options) {
  GDF_RETURN_IF_ERROR(CheckOptions(options));
  options_ = options;
  return absl::OkStatus();
}

// The norm must be known before anything is used, hence the two passes.
absl::Status Residual::Add(DeltaSource delta,
                           absl::FunctionRef<void(uint64_t first, absl::Span<const float> u)> use) {
  std::vector<float> u(std::min(kPiece, values_.size()));
  double sum_of_squares = 0.0;
  for (size_t begin = 0; begin < values_.size(); begin += kPiece) {
    const auto sum = absl::MakeSpan(u).subspan(0, values_.size() - begin);
    GDF_RETURN_IF_ERROR(Sum(delta, begin, sum));
    // A sum with a number that is not finite is not finite.
    if (!tensor::AllFinite(sum)) {
      GDF_RETURN_IF_ERROR(delta(begin, sum));
      GDF_RETURN_IF_ERROR(tensor::CheckFinite(absl::StrCat("delta from element ", begin), sum));
      return absl::InvalidArgumentError(
          "error feedback: delta plus residual overflows float32; lower the learning rate");
    }
    sum_of_squares += DoubleDot<float>(sum, sum);
  }
  last_norm_ = std::sqrt(sum_of_squares);
  const bool clips = options_.max_norm > 0.0 && last_norm_ > options_.max_norm;
  scale_ = clips ? static_cast<float>(options_.max_norm / last_norm_) : 1.0f;
  for (size_t begin = 0; begin < values_.size(); begin += kPiece) {
    const auto sum = absl::MakeSpan(u).subspan(0, values_.size() - begin);
    GDF_RETURN_IF_ERROR(Sum(delta, begin, sum));
    std::copy(sum.begin(), sum.end(), values_.data() + begin);
    for (float& value : sum) value *= scale_;
    use(begin, sum);
  }
  return absl::OkStatus();
}

absl::Status Residual::Sum(DeltaSource delta, uint64_t first, absl::Span<float> out) const {
  GDF_RETURN_IF_ERROR(delta(first, out));
  const float* e = values_.data() + first;
  for (size_t i = 0; i < out.size(); ++i) {
    const float carried = options_.beta * e[i];
    out[i] = carried + out[i];
  }
  return absl::OkStatus();
}

absl::Span<float> Residual::Take(uint64_t first, uint64_t count) {
  const absl::Span<float> u = values_.span().subspan(first, count);
  for (float& value : u) value *= scale_;
  return u;
}

absl::Status Residual::Restore(uint64_t first, absl::Span<const float> residual) {
  if (first > values_.size() || residual.size() > values_.size() - first) {
    return absl::InvalidArgumentError(absl::StrCat(
        "error feedback: a saved residual of at least ", first + residual.size(),
        " values, expected ", values_.size(), "; it belongs to another model"));
  }
  GDF_RETURN_IF_ERROR(tensor::CheckFinite("saved residual", residual));
  std::copy(residual.begin(), residual.end(), values_.data() + first);
  return absl::OkStatus();
}

}  // namespace gdf::compress
