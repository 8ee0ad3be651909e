#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "gdfd/worker/params/parameters.h"

namespace gdf::worker {
namespace {

using config::Gpt2Shape;
using config::LlamaShape;
using Shape = std::vector<int64_t>;

// Gathers tensors in reading order; matrices go to the front of the layout, vectors behind them.
class Collector {
 public:
  void Add(std::string name, Shape shape) {
    (shape.size() > 1 ? matrices_ : vectors_).emplace_back(std::move(name), std::move(shape));
  }

  absl::StatusOr<tensor::Layout> Finish() const {
    tensor::Layout layout;
    for (const auto* part : {&matrices_, &vectors_}) {
      for (const auto& [name, shape] : *part) GDF_RETURN_IF_ERROR(layout.Add(name, shape));
    }
    return layout;
  }

 private:
  std::vector<std::pair<std::string, Shape>> matrices_;
  std::vector<std::pair<std::string, Shape>> vectors_;
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

absl::StatusOr<tensor::Layout> ParameterLayout(const config::ModelShape& shape) {
  GDF_RETURN_IF_ERROR(config::ValidateModelShape(shape));
  if (config::Vocab(shape) < 1) {
    return absl::InvalidArgumentError("the model's vocabulary is not set: give the tokenizer's size");
  }
  Collector collector;
  std::visit([&](const auto& s) { Collect(s, collector); }, shape);
  return collector.Finish();
}

uint64_t NumMatrixElems(const tensor::Layout& layout) {
  uint64_t elems = 0;
  for (const tensor::TensorInfo& t : layout.tensors()) {
    if (t.shape.size() > 1) elems += t.num_elems;
  }
  return elems;
}

absl::StatusOr<tensor::Layout> ExportLayout(const config::ModelShape& shape) {
  GDF_ASSIGN_OR_RETURN(tensor::Layout layout, ParameterLayout(shape));
  const auto* gpt2 = std::get_if<Gpt2Shape>(&shape);
  if (gpt2 == nullptr || gpt2->bias) return layout;
  Gpt2Shape with_bias = *gpt2;
  with_bias.bias = true;
  GDF_ASSIGN_OR_RETURN(const tensor::Layout full, ParameterLayout(with_bias));
  for (const tensor::TensorInfo& t : full.tensors()) {
    if (layout.Find(t.name) == nullptr) GDF_RETURN_IF_ERROR(layout.Add(t.name, t.shape));
  }
  return layout;
}

}  // namespace gdf::worker
