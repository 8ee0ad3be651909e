#include "gdfd/worker/optimizer.h"

#include <ATen/ATen.h>

#include <utility>

namespace gdf::worker {



InnerOptimizer::InnerOptimizer(const config::OptimizerSpec& spec, at::Tensor parameters,
                               at::Tensor gradients, uint64_t num_matrix_elems)
    : spec_(spec),
      num_matrix_elems_(static_cast<int64_t>(num_matrix_elems)),
      parameters_(std::move(parameters)),
      gradients_(std::move(gradients)) {
  const int count = spec_.kind == config::InnerOptimizer::kAdamW ? 2 : (spec_.momentum != 0 ? 1 : 0);
  for (int i = 0; i < count; ++i) moments_.push_back(at::zeros_like(parameters_));
}

void InnerOptimizer::Step(double lr, int64_t steps_done) {
  if (spec_.kind == config::InnerOptimizer::kAdamW) {
    AdamWStep(lr, steps_done);
  } else {
    SgdStep(lr);
  }
}

void InnerOptimizer::AdamWStep(double lr, int64_t steps_done) {
  const auto update = [&](int64_t begin, int64_t end, double weight_decay) {
    if (begin == end) return;
    const auto part = [&](const at::Tensor& t) { return t.narrow(0, begin, end - begin); };
    const at::Tensor step =
        at::full({}, static_cast<double>(steps_done + 1), parameters_.options());
    at::_fused_adamw_({part(parameters_)}, {part(gradients_)}, {part(moments_[0])},
                      {part(moments_[1])}, {}, {step}, lr, spec_.beta1, spec_.beta2, weight_decay,
                      spec_.eps, /*amsgrad=*/false, /*maximize=*/false);
  };
  update(0, num_matrix_elems_, spec_.weight_decay);
  update(num_matrix_elems_, parameters_.size(0), 0);
}

void InnerOptimizer::SgdStep(double lr) {
  if (spec_.weight_decay != 0) {
    parameters_.narrow(0, 0, num_matrix_elems_).mul_(1 - lr * spec_.weight_decay);
  }
  if (spec_.momentum == 0) {
    parameters_.add_(gradients_, -lr);
  } else {
    moments_[0].mul_(spec_.momentum).add_(gradients_);
    parameters_.add_(moments_[0], -lr);
  }
}

}  // namespace gdf::worker
