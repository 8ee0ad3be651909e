#include "gdfd/worker/language_model.h"

#include <catch2/catch.hpp>
#include <set>
#include <vector>

#include "tests/unit/worker/test_models.h"

namespace gdf::worker {
namespace {

std::unique_ptr<LanguageModel> Model(const config::ModelShape& shape) {
  auto model = ValueOf(LanguageModel::Create({.shape = shape}));
  std::vector<float> values = RandomParameters(shape);
  for (float& v : values) v *= 20;  // so that probabilities differ
  RequireOk(model->SetParameters(values));
  return model;
}

config::ModelShape Shape() { return GENERATE(0, 1) == 0 ? config::ModelShape(TinyGpt2()) : config::ModelShape(TinyLlama()); }

}  // namespace

TEST_CASE("the cache gives what reading everything again gives") {
  const auto model = Model(Shape());
  const std::vector<int32_t> prompt = {1, 2, 3};
  const std::vector<int32_t> text = ValueOf(model->Generate(prompt, {.max_new_tokens = 12}));
  std::vector<int32_t> ids = prompt;
  for (const int32_t id : text) {
    const std::vector<float> logits = ValueOf(model->NextLogits(ids));
    CHECK(std::max_element(logits.begin(), logits.end()) - logits.begin() == id);
    ids.push_back(id);
  }
}

TEST_CASE("text may outgrow the context") {
  const auto model = Model(Shape());
  CHECK(ValueOf(model->Generate(PatternTokens(20), {.max_new_tokens = 50})).size() == 50);
}

TEST_CASE("sampling repeats by seed and keeps to the top k") {
  const auto model = Model(Shape());
  const std::vector<int32_t> prompt = {4};
  const GenerateOptions options{.max_new_tokens = 40, .temperature = 1.5, .seed = 5};
  const auto text = ValueOf(model->Generate(prompt, options));
  CHECK(text == ValueOf(model->Generate(prompt, options)));
  GenerateOptions other = options;
  other.seed = 6;
  CHECK(text != ValueOf(model->Generate(prompt, other)));
  GenerateOptions only_best = options;
  only_best.top_k = 1;
  CHECK(ValueOf(model->Generate(prompt, only_best)) == ValueOf(model->Generate(prompt, {.max_new_tokens = 40})));
}

TEST_CASE("text ends at the stop id, or when the caller says so") {
  const auto model = Model(Shape());
  const auto text = ValueOf(model->Generate({{4}}, {.max_new_tokens = 10}));
  const auto stopped = ValueOf(model->Generate({{4}}, {.max_new_tokens = 10, .stop_id = text[3]}));
  CHECK(stopped.size() == static_cast<size_t>(std::find(text.begin(), text.end(), text[3]) - text.begin()));
  GenerateOptions two{.max_new_tokens = 10};
  int seen = 0;
  two.on_token = [&](int32_t) { return ++seen < 2; };
  CHECK(ValueOf(model->Generate({{4}}, two)).size() == 2);
}

TEST_CASE("bad prompts, lengths and options are refused") {
  const auto model = Model(Shape());
  const auto code = [](const auto& result) { return result.status().code(); };
  CHECK(code(model->Generate({}, {})) == absl::StatusCode::kInvalidArgument);
  CHECK(code(model->Generate({{11}}, {})) == absl::StatusCode::kInvalidArgument);
  CHECK(code(model->Generate({{-1}}, {})) == absl::StatusCode::kInvalidArgument);
  CHECK(code(model->Generate({{1}}, {.temperature = -1})) == absl::StatusCode::kInvalidArgument);
  CHECK(code(model->NextLogits(PatternTokens(17))) == absl::StatusCode::kInvalidArgument);
  std::vector<float> few(3);
  CHECK(model->SetParameters(few).code() == absl::StatusCode::kInvalidArgument);
  for (const uint64_t first : {model->num_params() - 2, model->num_params() + 1}) {
    CHECK(model->CopyParameters(first, absl::MakeSpan(few)).code() ==
          absl::StatusCode::kInvalidArgument);
  }
}

TEST_CASE("a model larger than memory is an error, not a crash") {
  config::LlamaShape shape = TinyLlama();
  shape.layers = 200;
  shape.heads = 128;
  shape.kv_heads = 128;
  shape.head_width = 128;
  shape.width = 16384;
  shape.ffn_width = 65536;
  const auto model = LanguageModel::Create({.shape = shape});
  CHECK(model.status().code() == absl::StatusCode::kResourceExhausted);
}

}  // namespace gdf::worker
