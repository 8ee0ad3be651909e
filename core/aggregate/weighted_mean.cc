#include "core/aggregate/weighted_mean.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tensor/finite.h"

namespace gdf::aggregate {

absl::Status CheckWeights(absl::Span<const float> weights) {
  if (weights.empty() || weights.size() > kMaxContributions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "mean of ", weights.size(), " contributions, expected 1 to ", kMaxContributions));
  }
  for (size_t member = 0; member < weights.size(); ++member) {
    const float weight = weights[member];
    if (!(weight > 0.0f && weight <= kMaxWeight)) {
      return absl::InvalidArgumentError(absl::StrCat("weight of member ", member, " is ", weight,
                                                     ", expected above 0 and at most ",
                                                     kMaxWeight));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<WeightedMean> WeightedMean::Create(const compress::Codec* codec,
                                                  absl::Span<const float> weights,
                                                  absl::Span<float> acc) {
  GDF_RETURN_IF_ERROR(CheckWeights(weights));
  WeightedMean mean(codec, weights, acc);
  mean.Reset();
  return mean;
}

void WeightedMean::Reset() {
  std::fill(acc_.begin(), acc_.end(), 0.0f);
  next_ = 0;
  usable_ = true;
}

absl::Status WeightedMean::Add(size_t member, absl::Span<const uint8_t> packed) {
  if (!usable_ || member != next_ || member >= weights_.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("contribution of member ", member, " added ",
                     usable_ ? "out of turn" : "after the end or an error", ", expected member ",
                     next_, " of ", weights_.size()));
  }
  const absl::Status status = codec_->DecodeAccumulate(packed, weights_[member], acc_);
  if (!status.ok()) {
    usable_ = false;
    return Annotate(status, absl::StrCat("contribution of member ", member));
  }
  ++next_;
  return absl::OkStatus();
}

absl::Status WeightedMean::Finish() {
  if (!usable_ || next_ != weights_.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("mean finished ", usable_ ? "early" : "twice or after an error", ": ", next_,
                     " of ", weights_.size(), " contributions added"));
  }
  usable_ = false;
  float total = 0.0f;
  for (const float weight : weights_) total += weight;
  for (float& value : acc_) value /= total;
  return tensor::CheckFinite("mean of contributions", acc_);
}

}  // namespace gdf::aggregate
