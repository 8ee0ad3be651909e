// Agreement with `transformers` on tiny models: golden/ was written by make_golden.py.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/config/model_shape.h"
#include "gdfd/worker/language_model.h"
#include "gdfd/worker/model/decoder.h"
#include "gdfd/worker/params/parameters.h"
#include "tests/unit/worker/test_models.h"

namespace gdf::worker {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  INFO(path);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct Golden {
  config::ModelShape shape;
  std::vector<float> parameters;
  std::vector<float> gradients;
  std::vector<std::vector<int64_t>> ids;
  std::vector<std::vector<float>> last_logits;
  double loss = 0;
  std::vector<int32_t> greedy_ids;
};

std::vector<float> ReadTensors(const config::ModelShape& shape, const std::string& path) {
  const std::string file = ReadFile(path);
  const auto view = ValueOf(tensor::SafetensorsView::Parse(
      {reinterpret_cast<const uint8_t*>(file.data()), file.size()}));
  std::vector<float> values(ValueOf(ParameterLayout(shape)).num_params());
  RequireOk(ReadParameters(shape, {&view, 1}, absl::MakeSpan(values)));
  return values;
}

Golden Load(const std::string& name) {
  const std::string folder = GDF_SOURCE_DIR "/tests/unit/worker/golden/" + name + "/";
  Golden golden{.shape = ValueOf(config::ModelShapeFromHfConfig(ReadFile(folder + "config.json"),
                                                                "config.json")),
                .parameters = {}, .gradients = {}, .ids = {}, .last_logits = {}, .greedy_ids = {}};
  golden.parameters = ReadTensors(golden.shape, folder + "model.safetensors");
  golden.gradients = ReadTensors(golden.shape, folder + "gradients.safetensors");
  const auto json = nlohmann::json::parse(ReadFile(folder + "golden.json"));
  json.at("ids").get_to(golden.ids);
  json.at("last_logits").get_to(golden.last_logits);
  json.at("loss").get_to(golden.loss);
  json.at("greedy_ids").get_to(golden.greedy_ids);
  return golden;
}

struct PassResult {
  double loss = 0;  // mean
  std::vector<float> gradients;
};

// The gradients of the mean loss over all sequences, in `passes` equal passes.
PassResult TrainOn(const Golden& golden, const ModelOptions& options, int64_t passes = 1) {
  const auto model = ValueOf(LanguageModel::Create(options));
  RequireOk(model->SetParameters(golden.parameters));
  const c10::InferenceMode inference;
  const int64_t batch = static_cast<int64_t>(golden.ids.size());
  const int64_t length = static_cast<int64_t>(golden.ids[0].size()) - 1;
  at::Tensor ids = at::empty({batch, length + 1}, at::kLong);
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t t = 0; t <= length; ++t) ids.index_put_({b, t}, at::scalar_tensor(golden.ids[b][t], at::kLong));
  }
  const double scale = 1.0 / static_cast<double>(batch * length);
  PassResult result;
  for (int64_t pass = 0; pass < passes; ++pass) {
    const at::Tensor part = ids.narrow(0, pass * batch / passes, batch / passes);
    result.loss += model->decoder()
                       .TrainPass(part.narrow(1, 0, length).contiguous(),
                                  part.narrow(1, 1, length).contiguous(), scale,
                                  pass == 0 ? GradMode::kSet : GradMode::kAdd)
                       .item<double>() * scale;
  }
  const at::Tensor& g = model->decoder().gradients();
  result.gradients.assign(g.data_ptr<float>(), g.data_ptr<float>() + g.numel());
  return result;
}

const char* Names() { return GENERATE("gpt2", "llama", "llama_bias"); }

}  // namespace

TEST_CASE("logits equal those of transformers") {
  const Golden golden = Load(Names());
  const auto model = ValueOf(LanguageModel::Create({.shape = golden.shape}));
  RequireOk(model->SetParameters(golden.parameters));
  for (size_t b = 0; b < golden.ids.size(); ++b) {
    const std::vector<int32_t> ids(golden.ids[b].begin(), golden.ids[b].end() - 1);
    const std::vector<float> logits = ValueOf(model->NextLogits(ids));
    CHECK(RelativeDifference(logits, golden.last_logits[b]) < 1e-5);
  }
}

TEST_CASE("greedy text equals that of transformers") {
  const Golden golden = Load(Names());
  const auto model = ValueOf(LanguageModel::Create({.shape = golden.shape}));
  RequireOk(model->SetParameters(golden.parameters));
  const std::vector<int32_t> prompt(golden.ids[0].begin(), golden.ids[0].begin() + 5);
  CHECK(ValueOf(model->Generate(prompt, {.max_new_tokens = 20})) == golden.greedy_ids);
}

TEST_CASE("loss and every gradient equal those of autograd") {
  const Golden golden = Load(Names());
  const PassResult result = TrainOn(golden, {.shape = golden.shape});
  CHECK(result.loss == Approx(golden.loss).epsilon(1e-6));
  const auto layout = ValueOf(ParameterLayout(golden.shape));
  for (const tensor::TensorInfo& t : layout.tensors()) {
    INFO(t.name);
    CHECK(RelativeDifference(layout.Slice(absl::MakeConstSpan(result.gradients), t),
                             layout.Slice(absl::MakeConstSpan(golden.gradients), t)) < 1e-4);
  }
}

TEST_CASE("recomputed activations give the same bits") {
  const Golden golden = Load(Names());
  const PassResult kept = TrainOn(golden, {.shape = golden.shape});
  const PassResult recomputed = TrainOn(golden, {.shape = golden.shape, .recompute = true});
  CHECK(recomputed.gradients == kept.gradients);
  CHECK(recomputed.loss == kept.loss);
}

TEST_CASE("gradients add up over passes") {
  const Golden golden = Load(Names());
  const PassResult once = TrainOn(golden, {.shape = golden.shape});
  const PassResult thrice = TrainOn(golden, {.shape = golden.shape}, 3);
  CHECK(thrice.loss == Approx(once.loss).epsilon(1e-6));
  CHECK(RelativeDifference(thrice.gradients, once.gradients) < 1e-6);
}

// bfloat16 keeps 8 bits: a relative error of 2^-8 per value, averaged over sums.
TEST_CASE("bf16 products stay near float32") {
  const Golden golden = Load(Names());
  const PassResult result = TrainOn(golden, {.shape = golden.shape, .bf16 = true});
  CHECK(result.loss == Approx(golden.loss).epsilon(0.02));
  CHECK(RelativeDifference(result.gradients, golden.gradients) < 0.05);
}

}  // namespace gdf::worker
