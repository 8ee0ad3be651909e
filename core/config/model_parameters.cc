#include "core/config/model_parameters.h"

#include <iterator>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace gdf::config {
namespace {

// Gathers tensors in reading order; matrices go to the front, vectors behind them.
class Collector {
 public:
  void Add(std::string name, std::vector<int64_t> dims) {
    (dims.size() > 1 ? matrices_ : vectors_).push_back({std::move(name), std::move(dims)});
  }

  std::vector<ParameterShape> Finish() && {
    matrices_.insert(matrices_.end(), std::move_iterator(vectors_.begin()), std::move_iterator(vectors_.end()));
    return std::move(matrices_);
  }

 private:
  std::vector<ParameterShape> matrices_;
  std::vector<ParameterShape> vectors_;
};

void Collect(const Gpt2Shape& s, Collector& out) {
  const auto linear = [&](const std::string& name, int64_t in, int64_t width) {
    out.Add(name + ".weight", {in, width});
    if (s.bias) out.Add(name + ".bias", {width});
  };
  const auto norm = [&](const std::string& name) {
    out.Add(name + ".weight", {s.width});
    if (s.bias) out.Add(name + ".bias", {s.width});
  };
  out.Add("transformer.wte.weight", {s.vocab, s.width});
  out.Add("transformer.wpe.weight", {s.context, s.width});
  for (int64_t i = 0; i < s.layers; ++i) {
    const std::string block = absl::StrCat("transformer.h.", i, ".");
    norm(block + "ln_1");
    linear(block + "attn.c_attn", s.width, 3 * s.width);
    linear(block + "attn.c_proj", s.width, s.width);
    norm(block + "ln_2");
    linear(block + "mlp.c_fc", s.width, s.ffn_width);
    linear(block + "mlp.c_proj", s.ffn_width, s.width);
  }
  norm("transformer.ln_f");
  if (!s.tied_embeddings) out.Add("lm_head.weight", {s.vocab, s.width});
}

void Collect(const LlamaShape& s, Collector& out) {
  const auto linear = [&](const std::string& name, int64_t in, int64_t width, bool bias) {
    out.Add(name + ".weight", {width, in});
    if (bias) out.Add(name + ".bias", {width});
  };
  const int64_t q = s.heads * s.head_width;
  const int64_t kv = s.kv_heads * s.head_width;
  out.Add("model.embed_tokens.weight", {s.vocab, s.width});
  for (int64_t i = 0; i < s.layers; ++i) {
    const std::string block = absl::StrCat("model.layers.", i, ".");
    out.Add(block + "input_layernorm.weight", {s.width});
    linear(block + "self_attn.q_proj", s.width, q, s.attention_bias);
    linear(block + "self_attn.k_proj", s.width, kv, s.attention_bias);
    linear(block + "self_attn.v_proj", s.width, kv, s.attention_bias);
    linear(block + "self_attn.o_proj", q, s.width, s.attention_bias);
    out.Add(block + "post_attention_layernorm.weight", {s.width});
    linear(block + "mlp.gate_proj", s.width, s.ffn_width, s.mlp_bias);
    linear(block + "mlp.up_proj", s.width, s.ffn_width, s.mlp_bias);
    linear(block + "mlp.down_proj", s.ffn_width, s.width, s.mlp_bias);
  }
  out.Add("model.norm.weight", {s.width});
  if (!s.tied_embeddings) out.Add("lm_head.weight", {s.vocab, s.width});
}

}  // namespace

std::vector<ParameterShape> ParametersOf(const ModelShape& shape) {
  Collector collector;
  std::visit([&](const auto& s) { Collect(s, collector); }, shape);
  return std::move(collector).Finish();
}

}  // namespace gdf::config
