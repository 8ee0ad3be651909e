#include "gdfd/worker/model/attention.h"

#include <ATen/ATen.h>

#include <numbers>
#include <optional>
#include <tuple>
#include <utility>

namespace gdf::worker {
namespace {

// Part `first`.. of every row as [batch, heads, length, width], a view.
at::Tensor HeadsOf(const at::Tensor& rows, int64_t first, int64_t heads, int64_t width,
                   const Extent& extent) {
  return rows.narrow(1, first, heads * width)
      .view({extent.batch, extent.length, heads, width})
      .transpose(1, 2);
}

struct Heads {
  at::Tensor q, k, v;
};

Heads Split(const at::Tensor& rows, const HeadShape& s, const Extent& extent) {
  const int64_t q_width = s.query_heads * s.width;
  const int64_t kv_width = s.kv_heads * s.width;
  return {HeadsOf(rows, 0, s.query_heads, s.width, extent),
          HeadsOf(rows, q_width, s.kv_heads, s.width, extent),
          HeadsOf(rows, q_width + kv_width, s.kv_heads, s.width, extent)};
}

// Each key or value head once for every query head that uses it.
at::Tensor Repeat(const at::Tensor& heads, const HeadShape& s) {
  if (s.query_heads == s.kv_heads) return heads;
  const int64_t group = s.query_heads / s.kv_heads;
  return heads.unsqueeze(2)
      .expand({heads.size(0), s.kv_heads, group, heads.size(2), heads.size(3)})
      .reshape({heads.size(0), s.query_heads, heads.size(2), heads.size(3)});
}

// The transpose of Repeat: sums over each group.
at::Tensor SumGroups(const at::Tensor& grad, const HeadShape& s) {
  if (s.query_heads == s.kv_heads) return grad;
  const int64_t group = s.query_heads / s.kv_heads;
  return grad.view({grad.size(0), s.kv_heads, group, grad.size(2), grad.size(3)}).sum(2);
}

// softmax(q kᵀ / sqrt(width)) v, [batch, heads, length, width].
void Attend(const Heads& h, bool causal, AttentionTape& tape) {
  if (h.q.is_cpu()) {
    std::tie(tape.out, tape.logsumexp) =
        at::_scaled_dot_product_flash_attention_for_cpu(h.q, h.k, h.v, 0.0, causal);
  } else {
    std::tie(tape.out, tape.logsumexp, tape.seed, tape.offset) =
        at::_scaled_dot_product_efficient_attention(h.q, h.k, h.v, std::nullopt, true, 0.0, causal);
  }
}

Heads AttendBackward(const at::Tensor& dout, const Heads& h, const AttentionTape& tape) {
  Heads grad;
  if (h.q.is_cpu()) {
    std::tie(grad.q, grad.k, grad.v) = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        dout, h.q, h.k, h.v, tape.out, tape.logsumexp, 0.0, true);
  } else {
    at::Tensor no_mask_grad;
    std::tie(grad.q, grad.k, grad.v, no_mask_grad) =
        at::_scaled_dot_product_efficient_attention_backward(
            dout, h.q, h.k, h.v, at::Tensor(), tape.out, tape.logsumexp, tape.seed, tape.offset,
            0.0, {true, true, true, false}, true);
  }
  return grad;
}

at::Tensor ToRows(const at::Tensor& out, const Extent& extent) {
  return out.transpose(1, 2).reshape({extent.rows(), out.size(1) * out.size(3)});
}

// Wavelengths beyond the original context are stretched by `factor`, short ones kept, those
// between blended (Llama 3.1's rope_scaling).
at::Tensor Rescale(const at::Tensor& frequency, const config::Llama3RopeScaling& s) {
  const double context = static_cast<double>(s.original_context);
  const at::Tensor wavelength = 2 * std::numbers::pi / frequency;
  const at::Tensor blend = (context / wavelength - s.low_freq_factor) /
                           (s.high_freq_factor - s.low_freq_factor);
  const at::Tensor blended = (1 - blend) * frequency / s.factor + blend * frequency;
  const at::Tensor is_long = wavelength > context / s.low_freq_factor;
  const at::Tensor is_short = wavelength < context / s.high_freq_factor;
  return at::where(is_long, frequency / s.factor, at::where(is_short, frequency, blended));
}

}  // namespace

Rotary::Rotary(const config::LlamaShape& shape, at::ScalarType dtype, at::Device device) {
  const auto f32 = at::TensorOptions().dtype(at::kFloat);
  const double width = static_cast<double>(shape.head_width);
  at::Tensor frequency =
      1.0 / at::pow(shape.rope_theta, at::arange(0, shape.head_width, 2, f32) / width);
  if (shape.rope_scaling) frequency = Rescale(frequency, *shape.rope_scaling);
  const at::Tensor angle = at::outer(at::arange(shape.context, f32), frequency);
  cos_ = angle.cos().to(device, dtype);
  sin_ = angle.sin().to(device, dtype);
  minus_sin_ = sin_.neg();
}

void Rotary::Apply(at::Tensor rows, const HeadShape& heads, const Extent& extent) const {
  Turn(std::move(rows), heads, extent, sin_);
}

void Rotary::ApplyInverse(at::Tensor rows, const HeadShape& heads, const Extent& extent) const {
  Turn(std::move(rows), heads, extent, minus_sin_);
}

void Rotary::Turn(at::Tensor rows, const HeadShape& heads, const Extent& extent,
                  const at::Tensor& sin_table) const {
  if (!cos_.defined()) return;
  const at::Tensor pairs =
      rows.narrow(1, 0, heads.rotated_width())
          .view({extent.batch, extent.length, heads.query_heads + heads.kv_heads, 2,
                 heads.width / 2});
  const at::Tensor cos = cos_.narrow(0, extent.past, extent.length).unsqueeze(1);
  const at::Tensor sin = sin_table.narrow(0, extent.past, extent.length).unsqueeze(1);
  at::Tensor a = pairs.select(3, 0);
  at::Tensor b = pairs.select(3, 1);
  const at::Tensor turned_a = at::mul(a, cos).addcmul_(b, sin, -1);
  b.copy_(at::mul(b, cos).addcmul_(a, sin));
  a.copy_(turned_a);
}

at::Tensor Attention::Forward(at::Tensor rows, const Extent& extent, AttentionTape& tape) const {
  rotary_.Apply(rows, heads_, extent);
  const Heads h = Split(rows, heads_, extent);
  Attend({h.q, Repeat(h.k, heads_), Repeat(h.v, heads_)}, true, tape);
  tape.rows = std::move(rows);
  return ToRows(tape.out, extent);
}

at::Tensor Attention::ForwardCached(at::Tensor rows, const Extent& extent,
                                    LayerCache& cache) const {
  TORCH_CHECK(extent.batch == 1 && (extent.past == 0 || extent.length == 1));
  rotary_.Apply(rows, heads_, extent);
  const Heads h = Split(rows, heads_, extent);
  cache.keys.narrow(2, extent.past, extent.length).copy_(h.k);
  cache.values.narrow(2, extent.past, extent.length).copy_(h.v);
  const int64_t known = extent.past + extent.length;
  AttentionTape tape;
  Attend({h.q, Repeat(cache.keys.narrow(2, 0, known), heads_),
          Repeat(cache.values.narrow(2, 0, known), heads_)},
         extent.length > 1, tape);
  return ToRows(tape.out, extent);
}

at::Tensor Attention::Backward(const at::Tensor& dout, const Extent& extent,
                               const AttentionTape& tape) const {
  const Heads h = Split(tape.rows, heads_, extent);
  const Heads grad = AttendBackward(
      HeadsOf(dout, 0, heads_.query_heads, heads_.width, extent),
      {h.q, Repeat(h.k, heads_), Repeat(h.v, heads_)}, tape);
  at::Tensor drows = at::empty_like(tape.rows);
  const Heads out = Split(drows, heads_, extent);
  out.q.copy_(grad.q);
  out.k.copy_(SumGroups(grad.k, heads_));
  out.v.copy_(SumGroups(grad.v, heads_));
  rotary_.ApplyInverse(drows, heads_, extent);
  return drows;
}

}  // namespace gdf::worker
