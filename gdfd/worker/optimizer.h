// The inner optimiser over the flat parameters: AdamW (Loshchilov and Hutter, arXiv:1711.05101) by
// libtorch's fused kernel, or SGD with momentum. Weight decay is decoupled and acts on matrices.
#ifndef GDF_GDFD_WORKER_OPTIMIZER_H_
#define GDF_GDFD_WORKER_OPTIMIZER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/config/job_spec.h"

namespace gdf::worker {

// Not thread-safe; throws c10::Error; call under c10::InferenceMode.
class InnerOptimizer {
 public:
  // `parameters` and `gradients`: [num_params] float32, kept. The first `num_matrix_elems` decay.
  InnerOptimizer(const config::OptimizerSpec& spec, at::Tensor parameters, at::Tensor gradients,
                 uint64_t num_matrix_elems);

  // One update at learning rate `lr`; `steps_done` updates came before it.
  void Step(double lr, int64_t steps_done);

  // [num_params] float32 each: AdamW's first and second moment, SGD's momentum, or none.
  const std::vector<at::Tensor>& moments() const { return moments_; }

 private:
  void AdamWStep(double lr, int64_t steps_done);
  void SgdStep(double lr);

  const config::OptimizerSpec spec_;
  const int64_t num_matrix_elems_;
  at::Tensor parameters_;
  at::Tensor gradients_;
  std::vector<at::Tensor> moments_;
};

}  // namespace gdf::worker

#endif  // GDF_GDFD_WORKER_OPTIMIZER_H_
