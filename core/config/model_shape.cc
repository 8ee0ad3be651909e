#include "core/config/model_shape.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "core/config/model_limits.h"

namespace gdf::config {
namespace {

class Checker {
 public:
  void Range(std::string_view field, int64_t value, int64_t min, int64_t max) {
    if (value < min || value > max) {
      Add(field, absl::StrFormat("must be from %d to %d, got %d", min, max, value));
    }
  }
  void Divides(std::string_view field, int64_t value, std::string_view whole_field, int64_t whole) {
    if (value > 0 && whole > 0 && whole % value != 0) {
      Add(field, absl::StrFormat("must divide %s (%d), got %d", whole_field, whole, value));
    }
  }
  void Positive(std::string_view field, double value, double max) {
    if (!(value > 0 && value <= max)) {
      Add(field, absl::StrFormat("must be above 0 and at most %g, got %g", max, value));
    }
  }
  void Add(std::string_view field, std::string message) {
    problems_.push_back({std::string(field), std::move(message)});
  }
  std::vector<ShapeProblem> Take() { return std::move(problems_); }

 private:
  std::vector<ShapeProblem> problems_;
};

constexpr double kMaxEps = 0.1;

std::vector<ShapeProblem> Check(const Gpt2Shape& s) {
  Checker c;
  c.Range("layers", s.layers, 1, kMaxLayers);
  c.Range("heads", s.heads, 1, kMaxHeads);
  c.Range("width", s.width, 1, kMaxWidth);
  c.Divides("heads", s.heads, "width", s.width);
  c.Range("ffn_width", s.ffn_width, 1, kMaxFfnWidth);
  c.Range("context", s.context, 1, kMaxContext);
  c.Range("vocab", s.vocab, 0, kMaxVocab);
  c.Positive("layer_norm_eps", s.layer_norm_eps, kMaxEps);
  if (s.activation == Activation::kSilu) c.Add("activation", "must be gelu or gelu_new, got silu");
  return c.Take();
}

std::vector<ShapeProblem> Check(const LlamaShape& s) {
  Checker c;
  c.Range("layers", s.layers, 1, kMaxLayers);
  c.Range("heads", s.heads, 1, kMaxHeads);
  c.Range("kv_heads", s.kv_heads, 1, kMaxHeads);
  c.Divides("kv_heads", s.kv_heads, "heads", s.heads);
  c.Range("width", s.width, 1, kMaxWidth);
  c.Range("head_width", s.head_width, kMinHeadWidth, kMaxHeads);
  if (s.head_width >= kMinHeadWidth && s.head_width % 2 != 0) {
    c.Add("head_width", absl::StrFormat("must be even, got %d", s.head_width));
  }
  c.Range("ffn_width", s.ffn_width, 1, kMaxFfnWidth);
  c.Range("context", s.context, 1, kMaxContext);
  c.Range("vocab", s.vocab, 0, kMaxVocab);
  c.Positive("rope_theta", s.rope_theta, 1e12);
  c.Positive("rms_eps", s.rms_eps, kMaxEps);
  if (s.rope_scaling) {
    const Llama3RopeScaling& r = *s.rope_scaling;
    c.Positive("rope_scaling.factor", r.factor, 1e6);
    c.Positive("rope_scaling.low_freq_factor", r.low_freq_factor, 1e6);
    c.Positive("rope_scaling.high_freq_factor", r.high_freq_factor, 1e6);
    c.Range("rope_scaling.original_context", r.original_context, 1, kMaxContext);
    if (r.high_freq_factor <= r.low_freq_factor) {
      c.Add("rope_scaling.high_freq_factor",
            absl::StrFormat("must be above low_freq_factor (%g), got %g", r.low_freq_factor,
                            r.high_freq_factor));
    }
  }
  return c.Take();
}

int64_t Count(const Gpt2Shape& s) {
  const int64_t bias = s.bias ? 1 : 0;
  const int64_t norm = s.width * (1 + bias);
  const int64_t attention = 4 * s.width * s.width + bias * 4 * s.width;
  const int64_t feed_forward = 2 * s.width * s.ffn_width + bias * (s.ffn_width + s.width);
  const int64_t embeddings = (s.tied_embeddings ? 1 : 2) * s.vocab * s.width + s.context * s.width;
  return embeddings + s.layers * (2 * norm + attention + feed_forward) + norm;
}

int64_t Count(const LlamaShape& s) {
  const int64_t q = s.heads * s.head_width, kv = s.kv_heads * s.head_width;
  const int64_t attention = 2 * s.width * (q + kv) + (s.attention_bias ? q + 2 * kv + s.width : 0);
  const int64_t feed_forward =
      3 * s.width * s.ffn_width + (s.mlp_bias ? 2 * s.ffn_width + s.width : 0);
  return (s.tied_embeddings ? 1 : 2) * s.vocab * s.width +
         s.layers * (2 * s.width + attention + feed_forward) + s.width;
}

}  // namespace

int64_t Layers(const ModelShape& shape) {
  return std::visit([](const auto& s) { return s.layers; }, shape);
}
int64_t Width(const ModelShape& shape) {
  return std::visit([](const auto& s) { return s.width; }, shape);
}
int64_t Heads(const ModelShape& shape) {
  return std::visit([](const auto& s) { return s.heads; }, shape);
}
int64_t Context(const ModelShape& shape) {
  return std::visit([](const auto& s) { return s.context; }, shape);
}
int64_t Vocab(const ModelShape& shape) {
  return std::visit([](const auto& s) { return s.vocab; }, shape);
}
bool TiedEmbeddings(const ModelShape& shape) {
  return std::visit([](const auto& s) { return s.tied_embeddings; }, shape);
}

absl::StatusOr<ModelShape> WithVocab(ModelShape shape, int64_t tokenizer_vocab) {
  if (tokenizer_vocab < 1 || tokenizer_vocab > kMaxVocab) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the tokenizer has %d ids; from 1 to %d are supported", tokenizer_vocab, kMaxVocab));
  }
  const int64_t vocab = Vocab(shape);
  if (vocab != 0 && vocab < tokenizer_vocab) {
    return absl::InvalidArgumentError(
        absl::StrFormat("the model's vocabulary (%d) is smaller than the tokenizer's (%d); use the "
                        "tokenizer that belongs to the model",
                        vocab, tokenizer_vocab));
  }
  if (vocab == 0) std::visit([&](auto& s) { s.vocab = tokenizer_vocab; }, shape);
  return shape;
}

int64_t NumParameters(const ModelShape& shape) {
  return std::visit([](const auto& s) { return Count(s); }, shape);
}

std::vector<ShapeProblem> ShapeProblems(const ModelShape& shape) {
  return std::visit([](const auto& s) { return Check(s); }, shape);
}

absl::Status ValidateModelShape(const ModelShape& shape) {
  const std::vector<ShapeProblem> problems = ShapeProblems(shape);
  if (problems.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("%s %s", problems[0].field, problems[0].message));
}

}  // namespace gdf::config
