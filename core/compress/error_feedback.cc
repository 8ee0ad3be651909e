#include "core/compress/error_feedback.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace gdf::compress {
namespace {

// The part of the packed form that holds values [begin, begin + count).
template <typename Byte>
absl::Span<Byte> PackedPart(const Codec& codec, absl::Span<Byte> packed, size_t begin, size_t count) {
  const size_t at = codec.PackedSize(begin);
  return packed.subspan(at, codec.PackedSize(begin + count) - at);
}

}  // namespace

absl::StatusOr<ErrorFeedback> ErrorFeedback::Create(uint64_t num_params, const Codec* codec,
                                                    const ErrorFeedbackOptions& options) {
  GDF_ASSIGN_OR_RETURN(Residual residual, Residual::Create(num_params, options));
  return ErrorFeedback(codec, std::move(residual));
}

absl::Status ErrorFeedback::Use(const Codec* codec, const ErrorFeedbackOptions& options) {
  if (is_staged_) {
    return absl::FailedPreconditionError(
        "error feedback: a contribution is staged; settle it before the codec changes");
  }
  GDF_RETURN_IF_ERROR(residual_.SetOptions(options));
  codec_ = codec;
  return absl::OkStatus();
}

absl::Status ErrorFeedback::Stage(absl::Span<const float> delta, absl::Span<uint8_t> packed,
                                  uint64_t rounding_seed) {
  if (delta.size() != residual_.num_params()) {
    return absl::InvalidArgumentError(absl::StrCat("error feedback: delta has ", delta.size(),
                                                   " values, expected ", residual_.num_params()));
  }
  return Stage(
      [delta](uint64_t first, absl::Span<float> out) {
        std::copy_n(delta.data() + first, out.size(), out.data());
        return absl::OkStatus();
      },
      packed, rounding_seed);
}

absl::Status ErrorFeedback::Stage(DeltaSource delta, absl::Span<uint8_t> packed, uint64_t rounding_seed) {
  if (is_staged_) {
    return absl::FailedPreconditionError(
        "error feedback: a contribution is already staged; settle it before the next");
  }
  const size_t packed_size = codec_->PackedSize(residual_.num_params());
  if (packed.size() != packed_size) {
    return absl::InvalidArgumentError(absl::StrCat("error feedback: room for ", packed.size(),
                                                   " packed bytes, expected ", packed_size));
  }
  GDF_RETURN_IF_ERROR(residual_.Add(delta, [&](uint64_t first, absl::Span<const float> u) {
    codec_->Encode(u, PackedPart(*codec_, packed, first, u.size()), {rounding_seed, first});
  }));
  sent_.assign(packed.begin(), packed.end());
  is_staged_ = true;
  return absl::OkStatus();
}

absl::Status ErrorFeedback::Settle(bool applied) {
  if (!is_staged_) {
    return absl::FailedPreconditionError(
        "error feedback: nothing is staged; stage a contribution before it is settled");
  }
  for (size_t begin = 0; applied && begin < residual_.num_params(); begin += Residual::kPiece) {
    const absl::Span<float> u = residual_.Take(begin, Residual::kPiece);
    // u + (-1) * decode(c) is u - decode(c) exactly as IEEE subtraction gives it.
    GDF_RETURN_IF_ERROR(codec_->DecodeAccumulate(
        PackedPart(*codec_, absl::MakeConstSpan(sent_), begin, u.size()), -1.0f, u));
  }
  sent_ = {};
  is_staged_ = false;
  return absl::OkStatus();
}

absl::Status ErrorFeedback::Restore(uint64_t first, absl::Span<const float> residual) {
  GDF_RETURN_IF_ERROR(residual_.Restore(first, residual));
  sent_ = {};
  is_staged_ = false;
  return absl::OkStatus();
}

}  // namespace gdf::compress
