// One transformer block: x + attention(norm(x)), then x + mlp(norm(x)).
#ifndef GDF_GDFD_WORKER_MODEL_BLOCK_H_
#define GDF_GDFD_WORKER_MODEL_BLOCK_H_

#include <ATen/core/Tensor.h>

#include <utility>

#include "core/config/model_shape.h"
#include "gdfd/worker/model/attention.h"
#include "gdfd/worker/model/layers.h"

namespace gdf::worker {

// The feed-forward part: down(act(up(x))), or SwiGLU (Shazeer, arXiv:2002.05202) with gate and up
// in one product: down(silu(gate(x)) * up(x)).
struct Mlp {
  config::Activation activation = config::Activation::kGelu;  // kSilu: SwiGLU
  Linear up;    // SwiGLU: [gate | up]
  Linear down;
};

// What the backward pass of one block needs.
struct BlockTape {
  at::Tensor x;      // [n, width] float32: the block's input
  Norm::Tape norm1;
  at::Tensor h1;     // norm1's output
  AttentionTape attention;
  at::Tensor mixed;  // the attention's output
  at::Tensor x_mid;  // the residual stream between the two parts
  Norm::Tape norm2;
  at::Tensor h2;
  at::Tensor up;     // before the activation
  at::Tensor active; // after it

  // Drops what another forward pass over `x` can compute again.
  void KeepInput() {
    BlockTape kept;
    kept.x = x;
    *this = std::move(kept);
  }
};

struct Block {
  Norm norm1;
  Linear qkv;
  Attention attention;
  Linear proj;
  Norm norm2;
  Mlp mlp;

  // x: [n, width] float32 -> the same. With `cache`: one sequence going on after it.
  at::Tensor Forward(const at::Tensor& x, const Extent& extent, BlockTape& tape,
                     LayerCache* cache = nullptr) const;

  // dy: gradient of the result; overwritten -> gradient of x.
  at::Tensor Backward(at::Tensor dy, const Extent& extent, const BlockTape& tape,
                      GradMode mode) const;
};

}  // namespace gdf::worker

#endif  // GDF_GDFD_WORKER_MODEL_BLOCK_H_
