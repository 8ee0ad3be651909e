// A decoder-only transformer of the GPT-2 or Llama family: forward and backward passes over
// parameters and gradients that are views into two flat float32 vectors.
#ifndef GDF_GDFD_WORKER_MODEL_DECODER_H_
#define GDF_GDFD_WORKER_MODEL_DECODER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/tensor/layout.h"
#include "gdfd/worker/language_model.h"
#include "gdfd/worker/model/attention.h"
#include "gdfd/worker/model/block.h"
#include "gdfd/worker/model/layers.h"

namespace gdf::worker {

// Keys and values of all layers, with room for `capacity` positions.
struct KvCache {
  std::vector<LayerCache> layers;
  int64_t length = 0;
};

// Not thread-safe; throws c10::Error. Call every method under a c10::InferenceMode guard: tensors
// are made without autograd's bookkeeping.
class Decoder {
 public:
  // `layout` is ParameterLayout(options.shape) and must outlive the decoder; `device`: of the options' devices.
  Decoder(const ModelOptions& options, const tensor::Layout& layout, int device = 0);

  const at::Device& device() const { return device_; }

  // [num_params] float32 each. Call ParametersChanged() after writing to `parameters`.
  const at::Tensor& parameters() const { return parameters_; }
  const at::Tensor& gradients() const { return gradients_; }
  void ParametersChanged() { ++version_; }
  uint64_t version() const { return version_; }  // of the parameters

  // Forward and backward pass over inputs and targets, [batch, length] int64 each. Gives the summed
  // cross-entropy (a scalar tensor); the gradients of `scale` times that sum are set or added.
  at::Tensor TrainPass(const at::Tensor& inputs, const at::Tensor& targets, double scale,
                       GradMode mode);

  // The summed cross-entropy alone; targets below 0 do not count.
  at::Tensor LossSum(const at::Tensor& inputs, const at::Tensor& targets);

  // Reads ids [1, length] after the positions in `cache`; gives [vocab] logits of the last one.
  at::Tensor NextLogits(const at::Tensor& ids, KvCache& cache);
  KvCache MakeCache(int64_t capacity) const;

 private:
  Parameter Find(std::string_view name) const;
  Parameter FindFused(std::string_view first, std::string_view last, int64_t width) const;
  Parameter View(uint64_t offset, at::IntArrayRef shape, bool in_products) const;
  void Build(const config::Gpt2Shape& shape);
  void Build(const config::LlamaShape& shape);
  void Sync();

  at::Tensor Embed(const at::Tensor& ids, const Extent& extent) const;
  void EmbedBackward(const at::Tensor& ids, const at::Tensor& dx, const Extent& extent,
                     GradMode mode) const;
  at::Tensor HeadPass(const at::Tensor& h, const at::Tensor& targets, double scale, GradMode mode,
                      at::Tensor& loss) const;
  int64_t HeadRows() const;

  const ModelOptions options_;
  const tensor::Layout& layout_;
  const at::Device device_;
  at::Tensor parameters_;
  at::Tensor gradients_;
  at::Tensor products_;  // the parameters in the dtype of the products; parameters_ when float32
  uint64_t version_ = 1;
  uint64_t synced_ = 0;  // version that products_ has

  Parameter token_embedding_;     // float32
  Parameter position_embedding_;  // GPT-2
  std::vector<Block> blocks_;
  Norm final_norm_;
  Linear head_;
  bool tied_ = false;
};

}  // namespace gdf::worker

#endif  // GDF_GDFD_WORKER_MODEL_DECODER_H_
