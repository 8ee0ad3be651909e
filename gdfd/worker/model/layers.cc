#include "gdfd/worker/model/layers.h"

#include <ATen/ATen.h>

#include <optional>
#include <utility>

namespace gdf::worker {
namespace {

// grad = a b, or grad += a b; the product may be bf16, the gradient is float32.
void WriteProduct(const at::Tensor& a, const at::Tensor& b, GradMode mode, at::Tensor grad) {
  if (a.scalar_type() == grad.scalar_type()) {
    if (mode == GradMode::kSet) {
      at::mm_out(grad, a, b);
    } else {
      grad.addmm_(a, b);
    }
  } else if (mode == GradMode::kSet) {
    grad.copy_(at::mm(a, b));
  } else {
    grad.add_(at::mm(a, b));
  }
}

void WriteGrad(const at::Tensor& value, GradMode mode, at::Tensor grad) {
  if (mode == GradMode::kSet) {
    grad.copy_(value);
  } else {
    grad.add_(value);
  }
}

std::optional<at::Tensor> OptionalValue(const Parameter& p) {
  return p.defined() ? std::optional(p.value) : std::nullopt;
}

}  // namespace

Linear::Linear(Storage storage, Parameter weight, Parameter bias)
    : storage_(storage), weight_(std::move(weight)), bias_(std::move(bias)) {
  const at::Tensor transposed = weight_.value.t();
  in_out_ = storage_ == Storage::kInOut ? weight_.value : transposed;
  out_in_ = storage_ == Storage::kInOut ? transposed : weight_.value;
}

at::Tensor Linear::Forward(const at::Tensor& x) const {
  if (bias_.defined()) return at::addmm(bias_.value, x, in_out_);
  return at::mm(x, in_out_);
}

at::Tensor Linear::ForwardAdd(const at::Tensor& residual, const at::Tensor& x) const {
  if (x.scalar_type() != at::kFloat) return at::add(residual, Forward(x));
  at::Tensor y = at::addmm(residual, x, in_out_);
  if (bias_.defined()) y.add_(bias_.value);
  return y;
}

at::Tensor Linear::Backward(const at::Tensor& x, const at::Tensor& dy, GradMode mode) const {
  if (storage_ == Storage::kInOut) {
    WriteProduct(x.t(), dy, mode, weight_.grad);
  } else {
    WriteProduct(dy.t(), x, mode, weight_.grad);
  }
  if (bias_.defined()) WriteGrad(dy.sum(0, false, at::kFloat), mode, bias_.grad);
  return at::mm(dy, out_in_);
}

Norm::Norm(Kind kind, double eps, Parameter weight, Parameter bias, at::ScalarType dtype)
    : kind_(kind), eps_(eps), weight_(std::move(weight)), bias_(std::move(bias)), dtype_(dtype) {}

at::Tensor Norm::Forward(const at::Tensor& x, Tape& tape) const {
  if (kind_ == Kind::kRmsNorm) {
    tape.inverse_deviation = x.square().mean(-1, true).add_(eps_).rsqrt_();
    return at::mul(x, tape.inverse_deviation).mul_(weight_.value).to(dtype_);
  }
  at::Tensor y;
  std::tie(y, tape.mean, tape.inverse_deviation) =
      at::native_layer_norm(x, {x.size(1)}, weight_.value, OptionalValue(bias_), eps_);
  return y.to(dtype_);
}

at::Tensor Norm::Backward(const at::Tensor& x, const Tape& tape, const at::Tensor& dy,
                          GradMode mode) const {
  const at::Tensor dy32 = dy.to(at::kFloat);
  if (kind_ == Kind::kRmsNorm) return RmsBackward(x, tape, dy32, mode);
  auto [dx, dweight, dbias] = at::native_layer_norm_backward(
      dy32, x, {x.size(1)}, tape.mean, tape.inverse_deviation, weight_.value,
      OptionalValue(bias_), {true, true, bias_.defined()});
  WriteGrad(dweight, mode, weight_.grad);
  if (bias_.defined()) WriteGrad(dbias, mode, bias_.grad);
  return dx;
}

// y = w x̂, x̂ = x r, r = (mean(x²) + eps)^-1/2; so dx = r (g − x̂ mean(g x̂)) with g = w dy.
at::Tensor Norm::RmsBackward(const at::Tensor& x, const Tape& tape, const at::Tensor& dy,
                             GradMode mode) const {
  const at::Tensor normalised = at::mul(x, tape.inverse_deviation);
  WriteGrad(at::mul(dy, normalised).sum(0), mode, weight_.grad);
  at::Tensor g = at::mul(dy, weight_.value);
  const at::Tensor projection = at::mul(g, normalised).mean(-1, true);
  return g.addcmul_(normalised, projection, -1).mul_(tape.inverse_deviation);
}

}  // namespace gdf::worker
