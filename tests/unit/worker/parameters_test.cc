#include "gdfd/worker/params/parameters.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>


namespace gdf::worker {
namespace {

using Catch::Matchers::Contains;
using config::Gpt2Shape;
using config::LlamaShape;

Gpt2Shape SmallGpt2() {
  Gpt2Shape shape;
  shape.layers = 2;
  shape.heads = 2;
  shape.width = 8;
  shape.ffn_width = 32;
  shape.context = 16;
  shape.vocab = 11;
  shape.bias = false;
  return shape;
}

std::vector<float> Initial(const config::ModelShape& shape, uint64_t seed) {
  const auto layout = ParameterLayout(shape);
  REQUIRE(layout.ok());
  std::vector<float> values(layout->num_params());
  REQUIRE(InitParameters(shape, seed, absl::MakeSpan(values)).ok());
  return values;
}

std::string Written(const config::ModelShape& shape, absl::Span<const float> parameters) {
  std::string file;
  REQUIRE(WriteParameters(shape, parameters, tensor::DType::kF32, [&](absl::Span<const uint8_t> part) {
            file.append(part.begin(), part.end());
            return absl::OkStatus();
          }).ok());
  return file;
}

absl::Status ReadBack(const config::ModelShape& shape, const std::string& file, std::vector<float>& out) {
  const auto view = tensor::SafetensorsView::Parse(
      {reinterpret_cast<const uint8_t*>(file.data()), file.size()});
  REQUIRE(view.ok());
  out.assign(ParameterLayout(shape)->num_params(), -1.0f);
  return ReadParameters(shape, {&*view, 1}, absl::MakeSpan(out));
}

}  // namespace

TEST_CASE("the layout holds as many parameters as the shape says, matrices first") {
  Gpt2Shape gpt2 = SmallGpt2();
  gpt2.bias = GENERATE(false, true);
  gpt2.tied_embeddings = GENERATE(false, true);
  LlamaShape llama;
  llama.vocab = 100;
  llama.layers = 2;
  llama.kv_heads = 4;
  llama.attention_bias = gpt2.bias;
  llama.mlp_bias = !gpt2.bias;
  llama.tied_embeddings = gpt2.tied_embeddings;
  for (const config::ModelShape& shape : {config::ModelShape(gpt2), config::ModelShape(llama)}) {
    const auto layout = ParameterLayout(shape);
    REQUIRE(layout.ok());
    CHECK(layout->num_params() == static_cast<uint64_t>(config::NumParameters(shape)));
    const uint64_t matrices = NumMatrixElems(*layout);
    for (const tensor::TensorInfo& t : layout->tensors()) {
      CHECK((t.shape.size() > 1) == (t.offset_elems < matrices));
    }
  }
}

// GPT-2 "small" has 124,439,808 parameters with a tied embedding, SmolLM2-135M 134,515,008.
TEST_CASE("published models have their published sizes") {
  Gpt2Shape gpt2;
  gpt2.vocab = 50257;
  CHECK(ParameterLayout(gpt2)->num_params() == 124439808);
  LlamaShape smollm2;
  smollm2.layers = 30;
  smollm2.heads = 9;
  smollm2.kv_heads = 3;
  smollm2.head_width = 64;
  smollm2.width = 576;
  smollm2.ffn_width = 1536;
  smollm2.vocab = 49152;
  smollm2.tied_embeddings = true;
  CHECK(ParameterLayout(smollm2)->num_params() == 134515008);
}

TEST_CASE("a shape without a vocabulary has no layout") {
  Gpt2Shape shape = SmallGpt2();
  shape.vocab = 0;
  CHECK(ParameterLayout(shape).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("first values follow GPT-2's law") {
  Gpt2Shape shape = SmallGpt2();
  shape.width = 64;
  shape.ffn_width = 256;
  shape.bias = true;
  const auto layout = ParameterLayout(shape);
  const std::vector<float> values = Initial(shape, 7);
  for (const tensor::TensorInfo& t : layout->tensors()) {
    const auto part = layout->Slice(absl::MakeConstSpan(values), t);
    INFO(t.name);
    if (t.shape.size() == 1) {
      const float expected = t.name.ends_with(".bias") ? 0.0f : 1.0f;
      CHECK(std::all_of(part.begin(), part.end(), [&](float v) { return v == expected; }));
      continue;
    }
    double sum = 0, squares = 0;
    for (const float v : part) {
      sum += v;
      squares += double{v} * v;
    }
    const double n = static_cast<double>(part.size());
    const double stddev = t.name.ends_with("c_proj.weight") ? 0.01 : 0.02;  // 0.02 / sqrt(2 * 2)
    CHECK(std::abs(sum / n) < 5 * stddev / std::sqrt(n));
    CHECK(std::sqrt(squares / n) == Approx(stddev).epsilon(5 / std::sqrt(2 * n)));
  }
}

TEST_CASE("first values differ by seed and repeat by seed") {
  const std::vector<float> values = Initial(SmallGpt2(), 7);
  CHECK(values == Initial(SmallGpt2(), 7));
  CHECK(values != Initial(SmallGpt2(), 8));
}

TEST_CASE("parameters survive a safetensors file bit for bit") {
  const bool llama = GENERATE(false, true);
  LlamaShape llama_shape;
  llama_shape.layers = 1;
  llama_shape.vocab = 50;
  llama_shape.attention_bias = true;
  const config::ModelShape shape =
      llama ? config::ModelShape(llama_shape) : config::ModelShape(SmallGpt2());
  const std::vector<float> values = Initial(shape, 7);
  std::vector<float> read;
  REQUIRE(ReadBack(shape, Written(shape, values), read).ok());
  CHECK(read == values);
}

TEST_CASE("a GPT-2 without biases is exported with biases of zero") {
  const auto exported = ExportLayout(SmallGpt2());
  REQUIRE(exported.ok());
  CHECK(exported->Find("transformer.h.1.mlp.c_fc.bias")->shape == std::vector<int64_t>{32});
  CHECK(exported->Find("transformer.ln_f.bias") != nullptr);
  Gpt2Shape with_bias = SmallGpt2();
  with_bias.bias = true;
  std::vector<float> read;
  REQUIRE(ReadBack(with_bias, Written(SmallGpt2(), Initial(SmallGpt2(), 7)), read).ok());
}

TEST_CASE("files that do not fit the model are refused by name") {
  Gpt2Shape shape = SmallGpt2();
  const std::vector<float> values = Initial(shape, 7);
  const std::string file = Written(shape, values);
  std::vector<float> read;
  Gpt2Shape deeper = shape;
  deeper.layers = 3;
  CHECK_THAT(std::string(ReadBack(deeper, file, read).message()), Contains("lack tensor 'transformer.h.2."));
  Gpt2Shape shallower = shape;
  shallower.layers = 1;
  CHECK_THAT(std::string(ReadBack(shallower, file, read).message()), Contains("not a part of this model"));
  Gpt2Shape wider = shape;
  wider.vocab = 12;
  CHECK_THAT(std::string(ReadBack(wider, file, read).message()), Contains("[11, 8]") && Contains("[12, 8]"));
  Gpt2Shape biased = shape;
  biased.bias = true;
  std::vector<float> ones(ParameterLayout(biased)->num_params(), 1.0f);
  CHECK_THAT(std::string(ReadBack(shape, Written(biased, ones), read).message()), Contains("is not zero"));
}

TEST_CASE("a tensor in two files is refused") {
  const Gpt2Shape shape = SmallGpt2();
  const std::string file = Written(shape, Initial(shape, 7));
  const auto view = tensor::SafetensorsView::Parse({reinterpret_cast<const uint8_t*>(file.data()), file.size()});
  REQUIRE(view.ok());
  std::vector<float> read(ParameterLayout(shape)->num_params());
  const std::vector<tensor::SafetensorsView> twice = {*view, *view};
  CHECK_THAT(std::string(ReadParameters(shape, twice, absl::MakeSpan(read)).message()), Contains("twice"));
}

}  // namespace gdf::worker
