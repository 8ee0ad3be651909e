// Causal self-attention on rows of [q | k | v]: rotary positions, grouped queries, and libtorch's
// fused scaled-dot-product kernels with their backward passes.
#ifndef GDF_GDFD_WORKER_MODEL_ATTENTION_H_
#define GDF_GDFD_WORKER_MODEL_ATTENTION_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/config/model_shape.h"

namespace gdf::worker {

// Sequences of one pass: `batch` of `length` tokens, the first at position `past`.
struct Extent {
  int64_t batch = 0;
  int64_t length = 0;
  int64_t past = 0;

  int64_t rows() const { return batch * length; }
};

struct HeadShape {
  int64_t query_heads = 0;
  int64_t kv_heads = 0;  // divides query_heads
  int64_t width = 0;     // of one head

  int64_t rotated_width() const { return (query_heads + kv_heads) * width; }
  int64_t row_width() const { return (query_heads + 2 * kv_heads) * width; }
};

// Rotary positions (Su et al., arXiv:2104.09864) in the half-split form of Llama, with Llama 3's
// rescaled frequencies; cosines and sines as `transformers` computes them.
class Rotary {
 public:
  Rotary() = default;  // no rotation
  Rotary(const config::LlamaShape& shape, at::ScalarType dtype, at::Device device);

  // Turns q and k of `rows` [extent.rows(), heads.row_width()] in place, forward or back.
  void Apply(at::Tensor rows, const HeadShape& heads, const Extent& extent) const;
  void ApplyInverse(at::Tensor rows, const HeadShape& heads, const Extent& extent) const;

 private:
  void Turn(at::Tensor rows, const HeadShape& heads, const Extent& extent,
            const at::Tensor& sin) const;

  at::Tensor cos_;  // [context, width / 2]
  at::Tensor sin_;
  at::Tensor minus_sin_;
};

// Keys and values of one layer for the positions read so far.
struct LayerCache {
  at::Tensor keys;  // [1, kv_heads, capacity, width]
  at::Tensor values;
};

// What the backward pass of one layer needs.
struct AttentionTape {
  at::Tensor rows;       // [n, row_width], q and k rotated
  at::Tensor out;        // [batch, query_heads, length, width]
  at::Tensor logsumexp;
  at::Tensor seed;       // of the CUDA kernel
  at::Tensor offset;
};

class Attention {
 public:
  Attention() = default;
  Attention(const HeadShape& heads, Rotary rotary) : heads_(heads), rotary_(std::move(rotary)) {}

  // rows: [n, row_width], overwritten -> [n, query_heads * width].
  at::Tensor Forward(at::Tensor rows, const Extent& extent, AttentionTape& tape) const;

  // The same for one sequence that goes on after `extent.past` positions of `cache`, which takes up
  // the new keys and values. Past positions and more than one new one do not go together.
  at::Tensor ForwardCached(at::Tensor rows, const Extent& extent, LayerCache& cache) const;

  // dout: [n, query_heads * width] -> gradient of rows [n, row_width].
  at::Tensor Backward(const at::Tensor& dout, const Extent& extent, const AttentionTape& tape) const;

 private:
  HeadShape heads_;
  Rotary rotary_;
};

}  // namespace gdf::worker

#endif  // GDF_GDFD_WORKER_MODEL_ATTENTION_H_
