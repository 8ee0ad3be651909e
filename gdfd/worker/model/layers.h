// The two layers with parameters: linear maps and norms, each with a backward pass written by hand.
// Gradients go straight into views of one flat vector and no autograd graph is built: at small
// widths the graph's bookkeeping costs as much as the arithmetic.
#ifndef GDF_GDFD_WORKER_MODEL_LAYERS_H_
#define GDF_GDFD_WORKER_MODEL_LAYERS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace gdf::worker {

// One parameter: `value` in the dtype of the products (float32 or bf16), `grad` in float32.
// Undefined tensors where the model has no such parameter.
struct Parameter {
  at::Tensor value;
  at::Tensor grad;

  bool defined() const { return value.defined(); }
};

// Whether a backward pass adds to the gradients that are there (gradient accumulation) or sets them.
enum class GradMode { kSet, kAdd };

// y = x W + b, W stored [in, out] (GPT-2) or [out, in] (Llama).
class Linear {
 public:
  enum class Storage { kInOut, kOutIn };

  Linear() = default;
  Linear(Storage storage, Parameter weight, Parameter bias);

  // x: [n, in] -> [n, out], both in the weight's dtype.
  at::Tensor Forward(const at::Tensor& x) const;

  // residual + Forward(x): [n, out] float32.
  at::Tensor ForwardAdd(const at::Tensor& residual, const at::Tensor& x) const;

  // The gradient of x [n, in], and that of the parameters; dy: [n, out].
  at::Tensor Backward(const at::Tensor& x, const at::Tensor& dy, GradMode mode) const;

 private:
  Storage storage_ = Storage::kOutIn;
  Parameter weight_;
  Parameter bias_;
  at::Tensor in_out_;  // the weight's value seen as [in, out]
  at::Tensor out_in_;
};

// LayerNorm (Ba et al., arXiv:1607.06450) or RMSNorm (Zhang and Sennrich, arXiv:1910.07467) over
// rows, in float32.
class Norm {
 public:
  enum class Kind { kLayerNorm, kRmsNorm };

  // Statistics of a forward pass, [n, 1] each.
  struct Tape {
    at::Tensor mean;  // kLayerNorm only
    at::Tensor inverse_deviation;
  };

  Norm() = default;
  // `weight.value` and `bias.value` are float32; results are given in `dtype`.
  Norm(Kind kind, double eps, Parameter weight, Parameter bias, at::ScalarType dtype);

  // x: [n, width] float32 -> [n, width].
  at::Tensor Forward(const at::Tensor& x, Tape& tape) const;

  // The gradient of x [n, width] float32, and that of the parameters.
  at::Tensor Backward(const at::Tensor& x, const Tape& tape, const at::Tensor& dy,
                      GradMode mode) const;

 private:
  at::Tensor RmsBackward(const at::Tensor& x, const Tape& tape, const at::Tensor& dy,
                         GradMode mode) const;

  Kind kind_ = Kind::kLayerNorm;
  double eps_ = 0;
  Parameter weight_;
  Parameter bias_;
  at::ScalarType dtype_ = at::kFloat;
};

}  // namespace gdf::worker

#endif  // GDF_GDFD_WORKER_MODEL_LAYERS_H_
