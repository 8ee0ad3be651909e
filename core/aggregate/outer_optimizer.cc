#include "core/aggregate/outer_optimizer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tensor/finite.h"

namespace gdf::aggregate {
namespace {

constexpr float kMaxLearningRate = 10.0f;

// Elements that are worked on together, so that results are checked while still in the cache. The
// delta is read from a copy of the piece: loops become SIMD code only where nothing overlaps.
constexpr size_t kPiece = 4096;

absl::Status CheckLengths(const OuterSgd& optimizer, const OuterStepBuffers& b) {
  const size_t length = b.theta.size();
  const size_t momentum_length = optimizer.uses_momentum() ? length : 0;
  if (b.delta.size() == length && b.theta_out.size() == length &&
      b.momentum.size() == momentum_length && b.momentum_out.size() == momentum_length) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "outer step: lengths theta ", length, ", delta ", b.delta.size(), ", theta_out ",
      b.theta_out.size(), ", momentum ", b.momentum.size(), ", momentum_out ",
      b.momentum_out.size(), ", expected ", length, " each, of momentum ", momentum_length));
}

OuterStepBuffers Cut(const OuterStepBuffers& b, size_t begin) {
  const size_t momentum_begin = std::min(begin, b.momentum.size());  // none without momentum
  return {b.theta.subspan(begin, kPiece), b.delta.subspan(begin, kPiece),
          b.momentum.subspan(momentum_begin, kPiece), b.theta_out.subspan(begin, kPiece),
          b.momentum_out.subspan(momentum_begin, kPiece)};
}

void PlainStep(float rate, const OuterStepBuffers& b) {
  const float* theta = b.theta.data();
  const float* delta = b.delta.data();
  float* theta_out = b.theta_out.data();
  for (size_t i = 0; i < b.theta.size(); ++i) {
    const float step = rate * delta[i];
    theta_out[i] = theta[i] - step;
  }
}

template <bool kNesterov>
void MomentumStep(float rate, float mu, const OuterStepBuffers& b) {
  const float* theta = b.theta.data();
  const float* delta = b.delta.data();
  const float* momentum = b.momentum.data();
  float* theta_out = b.theta_out.data();
  float* momentum_out = b.momentum_out.data();
  for (size_t i = 0; i < b.theta.size(); ++i) {
    const float kept = mu * momentum[i];
    const float updated = kept + delta[i];
    float direction = updated;
    if constexpr (kNesterov) {
      const float ahead = mu * updated;
      direction = delta[i] + ahead;
    }
    const float step = rate * direction;
    theta_out[i] = theta[i] - step;
    momentum_out[i] = updated;
  }
}

}  // namespace

absl::Status OuterSgd::Validate() const {
  if (!(learning_rate > 0.0f && learning_rate <= kMaxLearningRate)) {
    return absl::InvalidArgumentError(absl::StrCat("outer learning rate is ", learning_rate,
                                                   ", expected above 0 and at most ",
                                                   kMaxLearningRate));
  }
  if (!(momentum >= 0.0f && momentum < 1.0f)) {
    return absl::InvalidArgumentError(
        absl::StrCat("outer momentum is ", momentum, ", expected 0 up to, not including, 1"));
  }
  return absl::OkStatus();
}

absl::Status OuterStep(const OuterSgd& optimizer, const OuterStepBuffers& buffers) {
  GDF_RETURN_IF_ERROR(optimizer.Validate());
  GDF_RETURN_IF_ERROR(CheckLengths(optimizer, buffers));
  float delta[kPiece];
  for (size_t begin = 0; begin < buffers.theta.size(); begin += kPiece) {
    OuterStepBuffers piece = Cut(buffers, begin);
    std::copy(piece.delta.begin(), piece.delta.end(), delta);
    piece.delta = absl::MakeConstSpan(delta, piece.delta.size());
    if (!optimizer.uses_momentum()) {
      PlainStep(optimizer.learning_rate, piece);
    } else if (optimizer.nesterov) {
      MomentumStep<true>(optimizer.learning_rate, optimizer.momentum, piece);
    } else {
      MomentumStep<false>(optimizer.learning_rate, optimizer.momentum, piece);
    }
    if (!tensor::AllFinite(piece.momentum_out)) {
      return tensor::CheckFinite("outer momentum", buffers.momentum_out);
    }
    if (!tensor::AllFinite(piece.theta_out)) {
      return tensor::CheckFinite("parameters after the outer step", buffers.theta_out);
    }
  }
  return absl::OkStatus();
}

}  // namespace gdf::aggregate
