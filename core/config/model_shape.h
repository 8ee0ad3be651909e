// The shape of a model: every number that fixes its parameters, for the families GDF builds.
// It comes from job.yaml (`model.gpt2`, `model.llama`) or from a Hugging Face config.json.
#ifndef GDF_CORE_CONFIG_MODEL_SHAPE_H_
#define GDF_CORE_CONFIG_MODEL_SHAPE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gdf::config {

// "gelu" is exact (erf); "gelu_new" is GPT-2's tanh approximation; "silu" is Llama's.
enum class Activation { kGelu, kGeluNew, kSilu };

// GPT-2: learned positions, LayerNorm before each part, a feed-forward of ffn_width.
// Radford et al., "Language Models are Unsupervised Multitask Learners" (2019).
struct Gpt2Shape {
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t width = 768;       // of the residual stream; a multiple of heads
  int64_t ffn_width = 3072;  // 4 * width unless stated
  int64_t context = 1024;    // longest sequence = number of learned positions
  int64_t vocab = 0;         // rows of the embedding; 0: as many as the tokenizer has ids
  bool bias = true;          // in linear layers and LayerNorms
  bool tied_embeddings = true;
  double layer_norm_eps = 1e-5;
  Activation activation = Activation::kGeluNew;

  bool operator==(const Gpt2Shape&) const = default;
};

// Llama 3's rescaling of rotary frequencies (config.json: rope_scaling, rope_type "llama3").
struct Llama3RopeScaling {
  double factor = 8.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  int64_t original_context = 8192;

  bool operator==(const Llama3RopeScaling&) const = default;
};

// Llama: RMSNorm, rotary positions, grouped-query attention, SwiGLU.
// Touvron et al., arXiv:2302.13971; grouped queries: Ainslie et al., arXiv:2305.13245.
struct LlamaShape {
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t kv_heads = 12;    // divides heads; `heads` unless stated
  int64_t head_width = 64;  // width / heads unless stated
  int64_t width = 768;
  int64_t ffn_width = 2048;
  int64_t context = 1024;
  int64_t vocab = 0;  // 0: as many as the tokenizer has ids
  double rope_theta = 10000.0;
  std::optional<Llama3RopeScaling> rope_scaling = std::nullopt;
  double rms_eps = 1e-5;
  bool tied_embeddings = false;
  bool attention_bias = false;  // in q, k, v and the output projection
  bool mlp_bias = false;        // in gate, up and down

  bool operator==(const LlamaShape&) const = default;
};

using ModelShape = std::variant<Gpt2Shape, LlamaShape>;

int64_t Layers(const ModelShape& shape);
int64_t Width(const ModelShape& shape);
int64_t Heads(const ModelShape& shape);
int64_t Context(const ModelShape& shape);
int64_t Vocab(const ModelShape& shape);
bool TiedEmbeddings(const ModelShape& shape);

// The shape with `vocab` filled in when it was 0; a stated vocabulary smaller than the tokenizer's
// is kInvalidArgument.
absl::StatusOr<ModelShape> WithVocab(ModelShape shape, int64_t tokenizer_vocab);

// Number of trained parameters; a tied embedding counts once. `vocab` must be set.
int64_t NumParameters(const ModelShape& shape);

// A field whose value cannot be used, by its name in job.yaml.
struct ShapeProblem {
  std::string field;
  std::string message;  // "must be ..., got ..."
};

// Checks every range and every relation between fields (heads divide width, kv_heads divide heads,
// ...) and returns all that do not hold.
std::vector<ShapeProblem> ShapeProblems(const ModelShape& shape);

// The first of ShapeProblems as kInvalidArgument.
absl::Status ValidateModelShape(const ModelShape& shape);

// Reads a Hugging Face config.json. Strict about what changes the arithmetic: an architecture,
// activation, rope scaling or attention variant that GDF does not compute exactly is
// kInvalidArgument by name. `filename` is for messages only.
absl::StatusOr<ModelShape> ModelShapeFromHfConfig(std::string_view json, std::string_view filename);

// config.json text that `transformers` loads, for an export; `torch_dtype` is "float32" or
// "bfloat16". ModelShapeFromHfConfig of it gives `shape` again, except that transformers' GPT-2
// always has biases: an export of one without them writes zeros for them, and reads back as `bias`.
std::string ModelShapeToHfConfig(const ModelShape& shape, std::string_view torch_dtype);

}  // namespace gdf::config

#endif  // GDF_CORE_CONFIG_MODEL_SHAPE_H_
