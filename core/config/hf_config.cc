// Hugging Face config.json <-> ModelShape. The keys and their defaults are those of transformers'
// GPT2Config and LlamaConfig, both the form of version 4 (rope_theta, rope_scaling) and that of
// version 5 (rope_parameters).
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/config/model_shape.h"

namespace gdf::config {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxConfigBytes = 1 << 20;

// Reads typed keys of one JSON object and keeps the first error. An absent key, or null, gives the
// default.
class ConfigReader {
 public:
  ConfigReader(const Json& object, std::string name) : object_(object), name_(std::move(name)) {}

  const absl::Status& status() const { return status_; }

  void Fail(std::string message) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(name_ + ": " + std::move(message));
  }
  const Json* Find(const std::string& key) const {
    const auto it = object_.find(key);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  int64_t Int(const std::string& key, std::optional<int64_t> fallback) {
    const Json* value = Find(key);
    if (value == nullptr) return Missing(key, fallback);
    if (!value->is_number_integer() ||
        (value->is_number_unsigned() && value->get<uint64_t>() > INT64_MAX)) {
      Fail(absl::StrFormat("'%s' must be a whole number", key));
      return 0;
    }
    return value->get<int64_t>();
  }
  double Number(const std::string& key, std::optional<double> fallback) {
    const Json* value = Find(key);
    if (value == nullptr) return Missing(key, fallback);
    if (!value->is_number()) Fail(absl::StrFormat("'%s' must be a number", key));
    return value->is_number() ? value->get<double>() : 0;
  }
  bool Bool(const std::string& key, bool fallback) {
    const Json* value = Find(key);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) Fail(absl::StrFormat("'%s' must be true or false", key));
    return value->is_boolean() && value->get<bool>();
  }
  std::string Text(const std::string& key, std::optional<std::string> fallback) {
    const Json* value = Find(key);
    if (value == nullptr) return Missing(key, std::move(fallback));
    if (!value->is_string()) Fail(absl::StrFormat("'%s' must be text", key));
    return value->is_string() ? value->get<std::string>() : std::string();
  }
  // A switch that GDF's models do not have: only `supported` is accepted.
  void MustBe(const std::string& key, bool supported) {
    if (Bool(key, supported) != supported) {
      Fail(absl::StrFormat("'%s: %s' is not supported", key, supported ? "false" : "true"));
    }
  }

 private:
  template <typename T>
  T Missing(const std::string& key, std::optional<T> fallback) {
    if (!fallback) Fail(absl::StrFormat("'%s' is missing", key));
    return fallback.value_or(T());
  }

  const Json& object_;
  std::string name_;
  absl::Status status_;
};

void CheckArchitecture(ConfigReader* r, const std::string& expected) {
  const Json* list = r->Find("architectures");
  if (list == nullptr) return;
  if (!list->is_array() || list->size() != 1 || !list->front().is_string() ||
      list->front().get<std::string>() != expected) {
    r->Fail(
        absl::StrFormat("'architectures' must be [\"%s\"]; other heads and models are not "
                        "supported",
                        expected));
  }
}

Gpt2Shape ReadGpt2(ConfigReader* r) {
  CheckArchitecture(r, "GPT2LMHeadModel");
  Gpt2Shape s;
  s.layers = r->Int("n_layer", 12);
  s.heads = r->Int("n_head", 12);
  s.width = r->Int("n_embd", 768);
  s.context = r->Int("n_positions", 1024);
  s.vocab = r->Int("vocab_size", 50257);
  // Multiplied only when in range: ValidateModelShape reports the width otherwise.
  s.ffn_width = r->Int("n_inner", s.width > 0 && s.width < (1 << 20) ? 4 * s.width : 1);
  s.layer_norm_eps = r->Number("layer_norm_epsilon", 1e-5);
  s.tied_embeddings = r->Bool("tie_word_embeddings", true);
  const std::string activation = r->Text("activation_function", "gelu_new");
  if (activation == "gelu") {
    s.activation = Activation::kGelu;
  } else if (activation == "gelu_new" || activation == "gelu_pytorch_tanh") {
    s.activation = Activation::kGeluNew;
  } else {
    r->Fail(
        absl::StrFormat("activation_function '%s' is not supported; gelu, gelu_new and "
                        "gelu_pytorch_tanh are",
                        activation));
  }
  r->MustBe("scale_attn_weights", true);
  r->MustBe("scale_attn_by_inverse_layer_idx", false);
  r->MustBe("add_cross_attention", false);
  return s;
}

void ReadRope(ConfigReader* r, LlamaShape* s) {
  const Json* parameters = r->Find("rope_parameters");
  s->rope_theta = r->Number("rope_theta", 10000.0);
  if (parameters == nullptr) parameters = r->Find("rope_scaling");
  if (parameters == nullptr) return;
  if (!parameters->is_object()) {
    r->Fail("the rope parameters must be an object");
    return;
  }
  ConfigReader rope(*parameters, "rope parameters");
  s->rope_theta = rope.Number("rope_theta", s->rope_theta);
  const std::string type = rope.Text("rope_type", rope.Text("type", "default"));
  if (type == "llama3") {
    s->rope_scaling = Llama3RopeScaling{
        .factor = rope.Number("factor", std::nullopt),
        .low_freq_factor = rope.Number("low_freq_factor", std::nullopt),
        .high_freq_factor = rope.Number("high_freq_factor", std::nullopt),
        .original_context = rope.Int("original_max_position_embeddings", std::nullopt)};
  } else if (type != "default") {
    rope.Fail(absl::StrFormat("rope_type '%s' is not supported; default and llama3 are", type));
  }
  if (rope.Number("partial_rotary_factor", 1.0) != 1.0) {
    rope.Fail("partial_rotary_factor other than 1 is not supported");
  }
  if (!rope.status().ok()) r->Fail(std::string(rope.status().message()));
}

LlamaShape ReadLlama(ConfigReader* r) {
  CheckArchitecture(r, "LlamaForCausalLM");
  LlamaShape s;
  s.layers = r->Int("num_hidden_layers", 32);
  s.heads = r->Int("num_attention_heads", 32);
  s.kv_heads = r->Int("num_key_value_heads", s.heads);
  s.width = r->Int("hidden_size", 4096);
  if (r->Find("head_dim") == nullptr && s.heads > 0 && s.width % s.heads != 0) {
    r->Fail(
        absl::StrFormat("num_attention_heads (%d) must divide hidden_size (%d), or head_dim be "
                        "given",
                        s.heads, s.width));
  }
  s.head_width = r->Int("head_dim", s.heads > 0 ? s.width / s.heads : 0);
  s.ffn_width = r->Int("intermediate_size", 11008);
  s.context = r->Int("max_position_embeddings", 2048);
  s.vocab = r->Int("vocab_size", 32000);
  s.rms_eps = r->Number("rms_norm_eps", 1e-6);
  s.tied_embeddings = r->Bool("tie_word_embeddings", false);
  s.attention_bias = r->Bool("attention_bias", false);
  s.mlp_bias = r->Bool("mlp_bias", false);
  const std::string activation = r->Text("hidden_act", "silu");
  if (activation != "silu") {
    r->Fail(absl::StrFormat("hidden_act '%s' is not supported; silu is", activation));
  }
  if (r->Number("partial_rotary_factor", 1.0) != 1.0) {
    r->Fail("partial_rotary_factor other than 1 is not supported");
  }
  ReadRope(r, &s);
  return s;
}

Json ToJson(const Gpt2Shape& s) {
  return {{"architectures", Json::array({"GPT2LMHeadModel"})},
          {"model_type", "gpt2"},
          {"n_layer", s.layers},
          {"n_head", s.heads},
          {"n_embd", s.width},
          {"n_inner", s.ffn_width},
          {"n_positions", s.context},
          {"vocab_size", s.vocab},
          {"layer_norm_epsilon", s.layer_norm_eps},
          {"activation_function", s.activation == Activation::kGelu ? "gelu" : "gelu_new"},
          {"tie_word_embeddings", s.tied_embeddings},
          {"embd_pdrop", 0.0},
          {"attn_pdrop", 0.0},
          {"resid_pdrop", 0.0}};
}

Json ToJson(const LlamaShape& s) {
  Json json = {{"architectures", Json::array({"LlamaForCausalLM"})},
               {"model_type", "llama"},
               {"num_hidden_layers", s.layers},
               {"num_attention_heads", s.heads},
               {"num_key_value_heads", s.kv_heads},
               {"head_dim", s.head_width},
               {"hidden_size", s.width},
               {"intermediate_size", s.ffn_width},
               {"max_position_embeddings", s.context},
               {"vocab_size", s.vocab},
               {"rms_norm_eps", s.rms_eps},
               {"rope_theta", s.rope_theta},
               {"rope_scaling", nullptr},
               {"hidden_act", "silu"},
               {"tie_word_embeddings", s.tied_embeddings},
               {"attention_bias", s.attention_bias},
               {"mlp_bias", s.mlp_bias}};
  if (s.rope_scaling) {
    json["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", s.rope_scaling->factor},
                            {"low_freq_factor", s.rope_scaling->low_freq_factor},
                            {"high_freq_factor", s.rope_scaling->high_freq_factor},
                            {"original_max_position_embeddings", s.rope_scaling->original_context}};
  }
  return json;
}

}  // namespace

absl::StatusOr<ModelShape> ModelShapeFromHfConfig(std::string_view json,
                                                  std::string_view filename) {
  const std::string name(filename);
  if (json.size() > kMaxConfigBytes) {
    return absl::InvalidArgumentError(absl::StrFormat("%s: has %u bytes; at most %u are allowed",
                                                      name, json.size(), kMaxConfigBytes));
  }
  const Json config = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (config.is_discarded() || !config.is_object()) {
    return absl::InvalidArgumentError(name + ": is not a JSON object");
  }
  ConfigReader reader(config, name);
  if (reader.Find("quantization_config") != nullptr) {
    reader.Fail(
        "quantised weights ('quantization_config') are not supported; use the original model");
  }
  const std::string type = reader.Text("model_type", std::nullopt);
  ModelShape shape;
  if (type == "gpt2") {
    shape = ReadGpt2(&reader);
  } else if (type == "llama") {
    shape = ReadLlama(&reader);
  } else {
    reader.Fail(absl::StrFormat("model_type '%s' is not supported; gpt2 and llama are", type));
  }
  if (!reader.status().ok()) return reader.status();
  if (absl::Status status = ValidateModelShape(shape); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrFormat("%s: %s", name, status.message()));
  }
  if (Vocab(shape) == 0) return absl::InvalidArgumentError(name + ": 'vocab_size' must be above 0");
  return shape;
}

std::string ModelShapeToHfConfig(const ModelShape& shape, std::string_view torch_dtype) {
  Json json = std::visit([](const auto& s) { return ToJson(s); }, shape);
  json["torch_dtype"] = torch_dtype;
  json["use_cache"] = true;
  return json.dump(2) + "\n";
}

}  // namespace gdf::config
