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
constexpr size_t kPiece = size_t{1} << 16;
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

// The part of the packed form that holds values [begin, begin + count).
template <typename Byte>
absl::Span<Byte> PackedPart(const Codec& codec, absl::Span<Byte> packed, size_t begin, size_t count) {
  const size_t at = codec.PackedSize(begin);
  return packed.subspan(at, codec.PackedSize(begin + count) - at);
}

}  // namespace

absl::StatusOr<ErrorFeedback> ErrorFeedback::Create(uint64_t num_params, const Codec* codec,
                                                    const ErrorFeedbackOptions& options) {
  GDF_RETURN_IF_ERROR(CheckOptions(options));
  GDF_ASSIGN_OR_RETURN(tensor::FlatBuffer residual, tensor::FlatBuffer::Zeros(num_params));
  return ErrorFeedback(codec, options, std::move(residual));
}

absl::Status ErrorFeedback::Use(const Codec* codec, const ErrorFeedbackOptions& options) {
  GDF_RETURN_IF_ERROR(CheckOptions(options));
  if (is_staged_) {
    return absl::FailedPreconditionError(
        "error feedback: a contribution is staged; settle it before the codec changes");
  }
  codec_ = codec;
  options_ = options;
  return absl::OkStatus();
}

absl::Status ErrorFeedback::Stage(absl::Span<const float> delta, absl::Span<uint8_t> packed,
                                  uint64_t rounding_seed) {
  if (delta.size() != residual_.size()) {
    return absl::InvalidArgumentError(absl::StrCat("error feedback: delta has ", delta.size(),
                                                   " values, expected ", residual_.size()));
  }
  return Stage(
      [delta](uint64_t first, absl::Span<float> out) {
        std::copy_n(delta.data() + first, out.size(), out.data());
        return absl::OkStatus();
      },
      packed, rounding_seed);
}

// The norm must be known before anything is encoded, hence the two passes.
absl::Status ErrorFeedback::Stage(DeltaSource delta, absl::Span<uint8_t> packed, uint64_t rounding_seed) {
  if (is_staged_) {
    return absl::FailedPreconditionError(
        "error feedback: a contribution is already staged; settle it before the next");
  }
  const size_t packed_size = codec_->PackedSize(residual_.size());
  if (packed.size() != packed_size) {
    return absl::InvalidArgumentError(absl::StrCat("error feedback: room for ", packed.size(),
                                                   " packed bytes, expected ", packed_size));
  }
  std::vector<float> u(std::min(kPiece, residual_.size()));
  double sum_of_squares = 0.0;
  for (size_t begin = 0; begin < residual_.size(); begin += kPiece) {
    const auto sum = absl::MakeSpan(u).subspan(0, residual_.size() - begin);
    GDF_RETURN_IF_ERROR(Sum(delta, begin, sum));
    // A sum with a number that is not finite is not finite.
    if (!tensor::AllFinite(sum)) {
      GDF_RETURN_IF_ERROR(delta(begin, sum));
      GDF_RETURN_IF_ERROR(tensor::CheckFinite(absl::StrCat("delta from element ", begin), sum));
      return absl::InvalidArgumentError(
          "error feedback: delta plus residual overflows float32; lower the learning rate");
    }
    sum_of_squares += SumOfSquares(sum);
  }
  last_norm_ = std::sqrt(sum_of_squares);
  const bool clips = options_.max_norm > 0.0 && last_norm_ > options_.max_norm;
  scale_ = clips ? static_cast<float>(options_.max_norm / last_norm_) : 1.0f;
  for (size_t begin = 0; begin < residual_.size(); begin += kPiece) {
    const auto sum = absl::MakeSpan(u).subspan(0, residual_.size() - begin);
    GDF_RETURN_IF_ERROR(Sum(delta, begin, sum));
    std::copy(sum.begin(), sum.end(), residual_.data() + begin);
    for (float& value : sum) value *= scale_;
    codec_->Encode(sum, PackedPart(*codec_, packed, begin, sum.size()), {rounding_seed, begin});
  }
  sent_.assign(packed.begin(), packed.end());
  is_staged_ = true;
  return absl::OkStatus();
}

absl::Status ErrorFeedback::Sum(DeltaSource delta, uint64_t first, absl::Span<float> out) const {
  GDF_RETURN_IF_ERROR(delta(first, out));
  const float* e = residual_.data() + first;
  for (size_t i = 0; i < out.size(); ++i) {
    const float carried = options_.beta * e[i];
    out[i] = carried + out[i];
  }
  return absl::OkStatus();
}

absl::Status ErrorFeedback::Settle(bool applied) {
  if (!is_staged_) {
    return absl::FailedPreconditionError(
        "error feedback: nothing is staged; stage a contribution before it is settled");
  }
  for (size_t begin = 0; applied && begin < residual_.size(); begin += kPiece) {
    const absl::Span<float> u = residual_.span().subspan(begin, kPiece);
    for (float& value : u) value *= scale_;
    // u + (-1) * decode(c) is u - decode(c) exactly as IEEE subtraction gives it.
    GDF_RETURN_IF_ERROR(codec_->DecodeAccumulate(
        PackedPart(*codec_, absl::MakeConstSpan(sent_), begin, u.size()), -1.0f, u));
  }
  sent_ = {};
  is_staged_ = false;
  return absl::OkStatus();
}

absl::Status ErrorFeedback::Restore(uint64_t first, absl::Span<const float> residual) {
  if (first > residual_.size() || residual.size() > residual_.size() - first) {
    return absl::InvalidArgumentError(absl::StrCat(
        "error feedback: a saved residual of at least ", first + residual.size(),
        " values, expected ", residual_.size(), "; it belongs to another model"));
  }
  GDF_RETURN_IF_ERROR(tensor::CheckFinite("saved residual", residual));
  std::copy(residual.begin(), residual.end(), residual_.data() + first);
  sent_ = {};
  is_staged_ = false;
  return absl::OkStatus();
}

}  // namespace gdf::compress
