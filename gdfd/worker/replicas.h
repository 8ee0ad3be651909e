// The decoder on every device of a worker. Passes over a batch are dealt out over the devices; the gradients are added
// up on the first one, whose parameters are the model's and go to the others when they have changed.
#ifndef GDF_GDFD_WORKER_REPLICAS_H_
#define GDF_GDFD_WORKER_REPLICAS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/loader.h"
#include "gdfd/worker/language_model.h"
#include "gdfd/worker/model/decoder.h"

namespace gdf::worker {

// One thread, which puts work on all devices before it waits for any. Not thread-safe; throws c10::Error; call under
// c10::InferenceMode.
class Replicas {
 public:
  // Of `model`, which must outlive it, on options().devices devices. `group`, of as many, sums and copies; null: the
  // devices copy to each other one after the other.
  Replicas(LanguageModel& model, std::shared_ptr<cuda::Group> group);

  size_t num_devices() const { return decoders_.size(); }

  // As Decoder's; ids [batch, length] int64 on the host, in a batch of at least num_devices(). The gradients of the
  // first device are the whole batch's after SumGradients.
  double TrainPass(const at::Tensor& inputs, const at::Tensor& targets, double scale, GradMode mode);
  void SumGradients();
  double LossSum(const at::Tensor& inputs, const at::Tensor& targets);

 private:
  // pass(decoder, inputs, targets) for each device and its part of the batch, whose losses are added up.
  template <typename Pass>
  double OnEach(const at::Tensor& inputs, const at::Tensor& targets, Pass pass);
  std::vector<at::Tensor> All(const at::Tensor& (Decoder::*flat)() const) const;
  void Refresh();

  std::vector<std::unique_ptr<Decoder>> others_;
  std::vector<Decoder*> decoders_;  // the model's own, then the others
  std::shared_ptr<cuda::Group> group_;
  uint64_t version_ = 0;  // of the parameters that the others have
};

}  // namespace gdf::worker

#endif  // GDF_GDFD_WORKER_REPLICAS_H_
