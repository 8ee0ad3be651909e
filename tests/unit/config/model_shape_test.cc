#include "core/config/model_shape.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

namespace gdf::config {
namespace {

// SmolLM2-135M's config.json as transformers 5 writes it.
constexpr char kSmolLm2[] = R"({
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "head_dim": 64,
  "hidden_act": "silu", "hidden_size": 576, "intermediate_size": 1536,
  "max_position_embeddings": 8192, "mlp_bias": false, "model_type": "llama",
  "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3,
  "pretraining_tp": 1, "rms_norm_eps": 9.999999747378752e-06,
  "rope_parameters": {"rope_theta": 100000.0, "rope_type": "default"},
  "tie_word_embeddings": true, "vocab_size": 49152})";

// The published config.json of gpt2, shortened.
constexpr char kGpt2[] = R"({
  "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"],
  "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
  "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "vocab_size": 50257})";

ModelShape Read(const std::string& json) {
  const auto shape = ModelShapeFromHfConfig(json, "config.json");
  INFO(shape.status());
  REQUIRE(shape.ok());
  return *shape;
}

TEST_CASE("published models have their published number of parameters") {
  CHECK(NumParameters(Read(kGpt2)) == 124'439'808);     // Hugging Face's count for gpt2
  CHECK(NumParameters(Read(kSmolLm2)) == 134'515'008);  // and for SmolLM2-135M
  // Llama 3.2 1B: 1,235,814,400 on its model card.
  CHECK(NumParameters(LlamaShape{.layers = 16,
                                 .heads = 32,
                                 .kv_heads = 8,
                                 .head_width = 64,
                                 .width = 2048,
                                 .ffn_width = 8192,
                                 .context = 131072,
                                 .vocab = 128256,
                                 .rope_theta = 500000.0,
                                 .rope_scaling = std::nullopt,
                                 .rms_eps = 1e-5,
                                 .tied_embeddings = true}) == 1'235'814'400);
}

TEST_CASE("parameters counted by hand") {
  // 65*128 + 64*128 + 4*(2*128 + 12*128*128) + 128
  Gpt2Shape gpt{.layers = 4,
                .heads = 4,
                .width = 128,
                .ffn_width = 512,
                .context = 64,
                .vocab = 65,
                .bias = false};
  CHECK(NumParameters(gpt) == 804'096);
  gpt.bias = true;  // + 4*(2*128 + 3*128 + 128 + 512 + 128) + 128
  CHECK(NumParameters(gpt) == 804'096 + 4 * 1408 + 128);
  gpt.tied_embeddings = false;
  CHECK(NumParameters(gpt) == 804'096 + 4 * 1408 + 128 + 65 * 128);
  LlamaShape llama{.layers = 1,
                   .heads = 4,
                   .kv_heads = 2,
                   .head_width = 4,
                   .width = 16,
                   .ffn_width = 32,
                   .context = 8,
                   .vocab = 10};
  // 2*10*16 + (2*16 + 2*16*(16+8) + 3*16*32) + 16
  CHECK(NumParameters(llama) == 320 + 32 + 768 + 1536 + 16);
  llama.attention_bias = true;  // 16 + 8 + 8 + 16
  llama.mlp_bias = true;        // 32 + 32 + 16
  CHECK(NumParameters(llama) == 320 + 32 + 768 + 1536 + 16 + 48 + 80);
}

TEST_CASE("config.json is read in the forms of transformers 4 and 5") {
  const LlamaShape v5 = std::get<LlamaShape>(Read(kSmolLm2));
  CHECK(v5.rope_theta == 100000.0);
  CHECK(v5.rms_eps == 9.999999747378752e-06);
  CHECK(v5.tied_embeddings);
  const LlamaShape v4 = std::get<LlamaShape>(Read(R"({"model_type": "llama", "hidden_size": 64,
    "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 96, "vocab_size": 100,
    "rope_theta": 500000.0, "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0,
    "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}})"));
  CHECK(v4.kv_heads == 4);
  CHECK(v4.head_width == 16);
  CHECK(v4.rope_theta == 500000.0);
  CHECK(v4.rope_scaling == Llama3RopeScaling{32.0, 1.0, 4.0, 8192});
  const Gpt2Shape gpt2 = std::get<Gpt2Shape>(Read(kGpt2));
  CHECK(gpt2 == Gpt2Shape{.vocab = 50257});
}

TEST_CASE("an exported config.json reads back as the same shape") {
  LlamaShape llama = std::get<LlamaShape>(Read(kSmolLm2));
  CHECK(Read(ModelShapeToHfConfig(llama, "float32")) == ModelShape(llama));
  llama.rope_scaling = Llama3RopeScaling{};
  llama.mlp_bias = true;
  CHECK(Read(ModelShapeToHfConfig(llama, "bfloat16")) == ModelShape(llama));
  Gpt2Shape gpt2{.vocab = 10, .tied_embeddings = false, .activation = Activation::kGelu};
  CHECK(Read(ModelShapeToHfConfig(gpt2, "float32")) == ModelShape(gpt2));
  gpt2.bias = false;  // zeros are exported for the biases, which transformers' GPT-2 always has
  CHECK(std::get<Gpt2Shape>(Read(ModelShapeToHfConfig(gpt2, "float32"))).bias);
}

TEST_CASE("what GDF does not compute exactly is refused by name") {
  const std::string smol = kSmolLm2, gpt2 = kGpt2;
  const auto with = [](std::string json, const std::string& extra) {
    return json.substr(0, json.rfind('}')) + ", " + extra + "}";
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{", "config.json: is not a JSON object"},
      {"[]", "config.json: is not a JSON object"},
      {"{}", "config.json: 'model_type' is missing"},
      {R"({"model_type": "qwen2"})",
       "config.json: model_type 'qwen2' is not supported; gpt2 and llama are"},
      {with(smol, R"("quantization_config": {})"),
       "config.json: quantised weights ('quantization_config') are not supported; use the original "
       "model"},
      {with(smol, R"("hidden_act": "gelu")"),
       "config.json: hidden_act 'gelu' is not supported; silu is"},
      {with(smol, R"("rope_parameters": {"rope_type": "yarn", "factor": 2.0})"),
       "config.json: rope parameters: rope_type 'yarn' is not supported; default and llama3 are"},
      {with(smol, R"("rope_parameters": {"rope_type": "llama3", "factor": 2.0})"),
       "config.json: rope parameters: 'low_freq_factor' is missing"},
      {with(smol, R"("partial_rotary_factor": 0.5)"),
       "config.json: partial_rotary_factor other than 1 is not supported"},
      {with(smol, R"("architectures": ["LlamaForSequenceClassification"])"),
       "config.json: 'architectures' must be [\"LlamaForCausalLM\"]; other heads and models are "
       "not "
       "supported"},
      {with(smol, R"("hidden_size": "576")"), "config.json: 'hidden_size' must be a whole number"},
      {with(smol, R"("hidden_size": 1e3)"), "config.json: 'hidden_size' must be a whole number"},
      {with(smol, R"("hidden_size": 18446744073709551615)"),
       "config.json: 'hidden_size' must be a whole number"},
      {with(smol, R"("num_hidden_layers": 9223372036854775807)"),
       "config.json: layers must be from 1 to 1024, got 9223372036854775807"},
      {with(smol, R"("num_key_value_heads": 2)"),
       "config.json: kv_heads must divide heads (9), got 2"},
      {with(smol, R"("vocab_size": 0)"), "config.json: 'vocab_size' must be above 0"},
      {with(gpt2, R"("activation_function": "relu")"),
       "config.json: activation_function 'relu' is not supported; gelu, gelu_new and "
       "gelu_pytorch_tanh are"},
      {with(gpt2, R"("scale_attn_by_inverse_layer_idx": true)"),
       "config.json: 'scale_attn_by_inverse_layer_idx: true' is not supported"},
      {with(gpt2, R"("scale_attn_weights": false)"),
       "config.json: 'scale_attn_weights: false' is not supported"},
      {with(gpt2, R"("n_embd": -9223372036854775808)"),
       "config.json: width must be from 1 to 65536, got -9223372036854775808"},
  };
  for (const auto& [json, message] : cases) {
    const auto shape = ModelShapeFromHfConfig(json, "config.json");
    CHECK(shape.status().code() == absl::StatusCode::kInvalidArgument);
    CHECK(shape.status().message() == message);
  }
  CHECK_FALSE(ModelShapeFromHfConfig(std::string((1 << 20) + 1, ' '), "config.json").ok());
}

TEST_CASE("the tokenizer sets a vocabulary that is left open") {
  Gpt2Shape shape;
  CHECK(Vocab(*WithVocab(shape, 65)) == 65);
  shape.vocab = 100;
  CHECK(Vocab(*WithVocab(shape, 65)) == 100);  // padded embeddings are usual
  CHECK_FALSE(WithVocab(shape, 101).ok());
  CHECK_FALSE(WithVocab(shape, 0).ok());
}

}  // namespace
}  // namespace gdf::config
