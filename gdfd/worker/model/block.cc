#include "gdfd/worker/model/block.h"

#include <ATen/ATen.h>

namespace gdf::worker {
namespace {

using config::Activation;

c10::string_view GeluKind(Activation activation) {
  return activation == Activation::kGeluNew ? "tanh" : "none";
}

at::Tensor Activate(Activation activation, const at::Tensor& up) {
  if (activation != Activation::kSilu) return at::gelu(up, GeluKind(activation));
  const int64_t width = up.size(1) / 2;
  return at::silu(up.narrow(1, 0, width)).mul_(up.narrow(1, width, width));
}

at::Tensor ActivateBackward(Activation activation, const at::Tensor& up, const at::Tensor& dy) {
  if (activation != Activation::kSilu) return at::gelu_backward(dy, up, GeluKind(activation));
  const int64_t width = up.size(1) / 2;
  const at::Tensor gate = up.narrow(1, 0, width);
  const at::Tensor value = up.narrow(1, width, width);
  at::Tensor dup = at::empty_like(up);
  dup.narrow(1, 0, width).copy_(at::silu_backward(at::mul(dy, value), gate));
  dup.narrow(1, width, width).copy_(at::silu(gate).mul_(dy));
  return dup;
}

}  // namespace

at::Tensor Block::Forward(const at::Tensor& x, const Extent& extent, BlockTape& tape,
                          LayerCache* cache) const {
  tape.x = x;
  tape.h1 = norm1.Forward(x, tape.norm1);
  const at::Tensor rows = qkv.Forward(tape.h1);
  tape.mixed = cache == nullptr ? attention.Forward(rows, extent, tape.attention)
                                : attention.ForwardCached(rows, extent, *cache);
  tape.x_mid = proj.ForwardAdd(x, tape.mixed);
  tape.h2 = norm2.Forward(tape.x_mid, tape.norm2);
  tape.up = mlp.up.Forward(tape.h2);
  tape.active = Activate(mlp.activation, tape.up);
  return mlp.down.ForwardAdd(tape.x_mid, tape.active);
}

at::Tensor Block::Backward(at::Tensor dy, const Extent& extent, const BlockTape& tape,
                           GradMode mode) const {
  const at::ScalarType dtype = tape.h1.scalar_type();
  const at::Tensor dactive = mlp.down.Backward(tape.active, dy.to(dtype), mode);
  const at::Tensor dup = ActivateBackward(mlp.activation, tape.up, dactive);
  const at::Tensor dh2 = mlp.up.Backward(tape.h2, dup, mode);
  dy.add_(norm2.Backward(tape.x_mid, tape.norm2, dh2, mode));

  const at::Tensor dmixed = proj.Backward(tape.mixed, dy.to(dtype), mode);
  const at::Tensor drows = attention.Backward(dmixed, extent, tape.attention);
  const at::Tensor dh1 = qkv.Backward(tape.h1, drows, mode);
  dy.add_(norm1.Backward(tape.x, tape.norm1, dh1, mode));
  return dy;
}

}  // namespace gdf::worker
