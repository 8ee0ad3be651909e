#include "gdfd/worker/model/decoder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace gdf::worker {
namespace {

// Logits are made for so many values at a time: 64 MiB of float32 whatever the vocabulary.
constexpr int64_t kMaxLogits = int64_t{1} << 24;
constexpr int64_t kIgnoredTarget = -1;

Extent ExtentOf(const at::Tensor& ids, int64_t past = 0) {
  return {.batch = ids.size(0), .length = ids.size(1), .past = past};
}

}  // namespace

Decoder::Decoder(const ModelOptions& options, const tensor::Layout& layout, int device)
    : options_(options),
      layout_(layout),
      device_(options.on_gpu ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device)) : at::Device(at::kCPU)) {
  const int64_t num_params = static_cast<int64_t>(layout.num_params());
  const auto f32 = at::TensorOptions().dtype(at::kFloat).device(device_);
  parameters_ = at::zeros({num_params}, f32);
  gradients_ = at::zeros({num_params}, f32);
  products_ = options.bf16 ? at::zeros({num_params}, f32.dtype(at::kBFloat16)) : parameters_;
  std::visit([this](const auto& shape) { Build(shape); }, options_.shape);
}

Parameter Decoder::View(uint64_t offset, at::IntArrayRef shape, bool in_products) const {
  const auto part = [&](const at::Tensor& flat) {
    int64_t elems = 1;
    for (const int64_t d : shape) elems *= d;
    return flat.narrow(0, static_cast<int64_t>(offset), elems).view(shape);
  };
  return {part(in_products ? products_ : parameters_), part(gradients_)};
}

// Undefined when the model has no such parameter. Norms and embeddings are used in float32.
Parameter Decoder::Find(std::string_view name) const {
  const tensor::TensorInfo* info = layout_.Find(name);
  return info == nullptr ? Parameter() : View(info->offset_elems, info->shape, false);
}

// The parameters from `first` to `last`, neighbours in the layout, as one of `width` rows (or
// elements, for biases), in the dtype of the products.
Parameter Decoder::FindFused(std::string_view first, std::string_view last, int64_t width) const {
  const tensor::TensorInfo* a = layout_.Find(first);
  const tensor::TensorInfo* b = layout_.Find(last);
  if (a == nullptr) return {};
  GDF_CHECK(b != nullptr && a->shape.size() == b->shape.size());
  std::vector<int64_t> shape = a->shape;
  if (first != last) {
    shape[0] = width;
    int64_t elems = width;
    for (size_t i = 1; i < shape.size(); ++i) elems *= shape[i];
    GDF_CHECK(a->offset_elems + static_cast<uint64_t>(elems) == b->offset_elems + b->num_elems);
  }
  return View(a->offset_elems, shape, true);
}

void Decoder::Build(const config::Gpt2Shape& s) {
  const at::ScalarType dtype = products_.scalar_type();
  const auto linear = [&](const std::string& name) {
    const std::string weight = name + ".weight", bias = name + ".bias";
    return Linear(Linear::Storage::kInOut, FindFused(weight, weight, 0), FindFused(bias, bias, 0));
  };
  const auto norm = [&](const std::string& name) {
    return Norm(Norm::Kind::kLayerNorm, s.layer_norm_eps, Find(name + ".weight"),
                Find(name + ".bias"), dtype);
  };
  token_embedding_ = Find("transformer.wte.weight");
  position_embedding_ = Find("transformer.wpe.weight");
  const HeadShape heads{s.heads, s.heads, s.width / s.heads};
  for (int64_t i = 0; i < s.layers; ++i) {
    const std::string name = absl::StrCat("transformer.h.", i, ".");
    blocks_.push_back({norm(name + "ln_1"), linear(name + "attn.c_attn"),
                       Attention(heads, Rotary()), linear(name + "attn.c_proj"),
                       norm(name + "ln_2"),
                       {s.activation, linear(name + "mlp.c_fc"), linear(name + "mlp.c_proj")}});
  }
  final_norm_ = norm("transformer.ln_f");
  tied_ = s.tied_embeddings;
  const std::string head = tied_ ? "transformer.wte.weight" : "lm_head.weight";
  head_ = Linear(Linear::Storage::kOutIn, FindFused(head, head, 0), {});
}

void Decoder::Build(const config::LlamaShape& s) {
  const at::ScalarType dtype = products_.scalar_type();
  const auto linear = [&](const std::string& first, const std::string& last, int64_t width) {
    return Linear(Linear::Storage::kOutIn, FindFused(first + ".weight", last + ".weight", width),
                  FindFused(first + ".bias", last + ".bias", width));
  };
  const auto norm = [&](const std::string& name) {
    return Norm(Norm::Kind::kRmsNorm, s.rms_eps, Find(name + ".weight"), {}, dtype);
  };
  token_embedding_ = Find("model.embed_tokens.weight");
  const HeadShape heads{s.heads, s.kv_heads, s.head_width};
  const Rotary rotary(s, dtype, device_);
  for (int64_t i = 0; i < s.layers; ++i) {
    const std::string name = absl::StrCat("model.layers.", i, ".");
    const std::string attn = name + "self_attn.", mlp = name + "mlp.";
    blocks_.push_back(
        {norm(name + "input_layernorm"),
         linear(attn + "q_proj", attn + "v_proj", heads.row_width()), Attention(heads, rotary),
         linear(attn + "o_proj", attn + "o_proj", s.width),
         norm(name + "post_attention_layernorm"),
         {config::Activation::kSilu, linear(mlp + "gate_proj", mlp + "up_proj", 2 * s.ffn_width),
          linear(mlp + "down_proj", mlp + "down_proj", s.width)}});
  }
  final_norm_ = norm("model.norm");
  tied_ = s.tied_embeddings;
  const std::string head = tied_ ? "model.embed_tokens.weight" : "lm_head.weight";
  head_ = Linear(Linear::Storage::kOutIn, FindFused(head, head, 0), {});
}

void Decoder::Sync() {
  if (synced_ != version_ && options_.bf16) products_.copy_(parameters_);
  synced_ = version_;
}

at::Tensor Decoder::Embed(const at::Tensor& ids, const Extent& extent) const {
  at::Tensor x = at::index_select(token_embedding_.value, 0, ids.flatten());
  if (position_embedding_.defined()) {
    x.view({extent.batch, extent.length, x.size(1)})
        .add_(position_embedding_.value.narrow(0, extent.past, extent.length));
  }
  return x;
}

void Decoder::EmbedBackward(const at::Tensor& ids, const at::Tensor& dx, const Extent& extent,
                            GradMode mode) const {
  if (mode == GradMode::kSet && !tied_) token_embedding_.grad.zero_();  // tied: the head set it
  token_embedding_.grad.index_add_(0, ids.flatten(), dx);
  if (!position_embedding_.defined()) return;
  if (mode == GradMode::kSet) position_embedding_.grad.zero_();
  position_embedding_.grad.narrow(0, 0, extent.length)
      .add_(dx.view({extent.batch, extent.length, dx.size(1)}).sum(0));
}

int64_t Decoder::HeadRows() const {
  return std::max<int64_t>(1, kMaxLogits / config::Vocab(options_.shape));
}

// Logits, loss and their gradients for a few rows at a time; gives the gradient of h [n, width].
at::Tensor Decoder::HeadPass(const at::Tensor& h, const at::Tensor& targets, double scale,
                             GradMode mode, at::Tensor& loss) const {
  std::vector<at::Tensor> dh;
  for (int64_t row = 0; row < h.size(0); row += HeadRows()) {
    const int64_t rows = std::min(HeadRows(), h.size(0) - row);
    const at::Tensor part = h.narrow(0, row, rows);
    const at::Tensor target = targets.narrow(0, row, rows);
    at::Tensor log_p = at::_log_softmax(head_.Forward(part).to(at::kFloat), 1, false);
    loss.sub_(log_p.gather(1, target.unsqueeze(1)).sum());
    // d(-log p[target]) / d logits = p - onehot(target)
    at::Tensor dlogits = log_p.exp_();
    dlogits.scatter_add_(1, target.unsqueeze(1), at::full({rows, 1}, -1.0f, dlogits.options()));
    dlogits.mul_(scale);
    dh.push_back(head_.Backward(part, dlogits.to(h.scalar_type()), mode));
    mode = GradMode::kAdd;
  }
  return dh.size() == 1 ? dh[0] : at::cat(dh);
}

at::Tensor Decoder::TrainPass(const at::Tensor& inputs, const at::Tensor& targets, double scale,
                              GradMode mode) {
  Sync();
  const Extent extent = ExtentOf(inputs);
  std::vector<BlockTape> tapes(blocks_.size());
  at::Tensor x = Embed(inputs, extent);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    x = blocks_[i].Forward(x, extent, tapes[i]);
    if (options_.recompute) tapes[i].KeepInput();
  }
  Norm::Tape norm_tape;
  const at::Tensor h = final_norm_.Forward(x, norm_tape);
  at::Tensor loss = at::zeros({}, x.options());
  const at::Tensor dh = HeadPass(h, targets.flatten(), scale, mode, loss);
  at::Tensor dx = final_norm_.Backward(x, norm_tape, dh, mode);
  for (size_t i = blocks_.size(); i-- > 0;) {
    if (options_.recompute) blocks_[i].Forward(tapes[i].x, extent, tapes[i]);
    dx = blocks_[i].Backward(std::move(dx), extent, tapes[i], mode);
    tapes[i] = BlockTape();
  }
  EmbedBackward(inputs, dx, extent, mode);
  return loss;
}

at::Tensor Decoder::LossSum(const at::Tensor& inputs, const at::Tensor& targets) {
  Sync();
  const Extent extent = ExtentOf(inputs);
  at::Tensor x = Embed(inputs, extent);
  for (const Block& block : blocks_) {
    BlockTape tape;
    x = block.Forward(x, extent, tape);
  }
  Norm::Tape norm_tape;
  const at::Tensor h = final_norm_.Forward(x, norm_tape);
  const at::Tensor flat_targets = targets.flatten().clamp_min(kIgnoredTarget);
  at::Tensor loss = at::zeros({}, x.options());
  for (int64_t row = 0; row < h.size(0); row += HeadRows()) {
    const int64_t rows = std::min(HeadRows(), h.size(0) - row);
    const at::Tensor log_p =
        at::_log_softmax(head_.Forward(h.narrow(0, row, rows)).to(at::kFloat), 1, false);
    loss.add_(at::nll_loss(log_p, flat_targets.narrow(0, row, rows), std::nullopt,
                           at::Reduction::Sum, kIgnoredTarget));
  }
  return loss;
}

KvCache Decoder::MakeCache(int64_t capacity) const {
  int64_t heads = 0, width = 0;
  if (const auto* llama = std::get_if<config::LlamaShape>(&options_.shape)) {
    heads = llama->kv_heads;
    width = llama->head_width;
  } else {
    heads = config::Heads(options_.shape);
    width = config::Width(options_.shape) / heads;
  }
  KvCache cache;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    cache.layers.push_back({at::empty({1, heads, capacity, width}, products_.options()),
                            at::empty({1, heads, capacity, width}, products_.options())});
  }
  return cache;
}

at::Tensor Decoder::NextLogits(const at::Tensor& ids, KvCache& cache) {
  Sync();
  const Extent extent = ExtentOf(ids, cache.length);
  at::Tensor x = Embed(ids, extent);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    BlockTape tape;
    x = blocks_[i].Forward(x, extent, tape, &cache.layers[i]);
  }
  cache.length += extent.length;
  Norm::Tape norm_tape;
  const at::Tensor h = final_norm_.Forward(x.narrow(0, x.size(0) - 1, 1), norm_tape);
  return head_.Forward(h).to(at::kFloat).flatten();
}

}  // namespace gdf::worker
