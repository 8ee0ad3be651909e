// Compares a Hugging Face folder run by this worker with reference.json beside it (prompts, ids, last logits, greedy
// continuations computed by `transformers`). Exits 1 when they differ.
//
//   worker_smollm2 FOLDER [--threads N]
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "core/config/model_shape.h"
#include "core/data/tokenizer.h"
#include "gdfd/worker/language_model.h"
#include "gdfd/worker/params/parameters.h"

namespace {

using namespace gdf;

constexpr double kMaxLogitDifference = 1e-3;  // max|a - b| / max|b|

template <typename T>
T ValueOrDie(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "worker_smollm2: %s\n", value.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(value);
}

void OkOrDie(const absl::Status& status) {
  ValueOrDie(status.ok() ? absl::StatusOr<int>(0) : absl::StatusOr<int>(status));
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) OkOrDie(absl::NotFoundError(path));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Comparison {
  bool ids_equal = false;
  bool greedy_equal = false;
  double logit_difference = 0;  // over the 64 logits kept in the reference
  double norm_difference = 0;   // relative, of the whole logits vector
};

Comparison Compare(worker::LanguageModel& model, const data::Tokenizer& tokenizer,
                   const nlohmann::json& reference) {
  Comparison result;
  const auto ids = ValueOrDie(tokenizer.Encode(reference.at("prompt").get<std::string>()));
  result.ids_equal = ids == reference.at("ids").get<std::vector<int32_t>>();
  const auto logits = ValueOrDie(model.NextLogits(ids));
  const auto expected = reference.at("last_logits_first64").get<std::vector<double>>();
  double difference = 0, largest = 0, squares = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference = std::max(difference, std::abs(logits[i] - expected[i]));
    largest = std::max(largest, std::abs(expected[i]));
  }
  for (const float v : logits) squares += double{v} * v;
  result.logit_difference = difference / largest;
  result.norm_difference = std::abs(std::sqrt(squares) / reference.at("last_logits_norm").get<double>() - 1);
  const auto greedy = reference.at("greedy_ids").get<std::vector<int32_t>>();
  const auto text = ValueOrDie(model.Generate(ids, {.max_new_tokens = static_cast<int64_t>(greedy.size())}));
  result.greedy_equal = text == greedy;
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder;
  int threads = 2;
  CLI::App app("A Hugging Face folder against its reference.json");
  app.add_option("folder", folder)->required()->check(CLI::ExistingDirectory);
  app.add_option("--threads", threads, "CPU threads");
  CLI11_PARSE(app, argc, argv);

  const double started = Now();
  const std::string config = ReadFile(folder + "/config.json");
  const auto shape = ValueOrDie(config::ModelShapeFromHfConfig(config, "config.json"));
  const auto tokenizer = ValueOrDie(data::ParseTokenizer(ReadFile(folder + "/tokenizer.json"), config));
  const auto model = ValueOrDie(worker::LanguageModel::Create({.shape = shape, .threads = threads}));
  {
    const std::string file = ReadFile(folder + "/model.safetensors");
    const auto view = ValueOrDie(tensor::SafetensorsView::Parse(
        {reinterpret_cast<const uint8_t*>(file.data()), file.size()}));
    std::vector<float> parameters(model->num_params());
    OkOrDie(worker::ReadParameters(shape, {&view, 1}, absl::MakeSpan(parameters)));
    OkOrDie(model->SetParameters(parameters));
  }
  std::printf("{\"num_params\": %llu, \"load_seconds\": %.2f}\n",
              static_cast<unsigned long long>(model->num_params()), Now() - started);
  bool all_equal = true;
  for (const auto& reference : nlohmann::json::parse(ReadFile(folder + "/reference.json"))) {
    const Comparison c = Compare(*model, *tokenizer, reference);
    all_equal &= c.ids_equal && c.greedy_equal && c.logit_difference <= kMaxLogitDifference &&
                 c.norm_difference <= kMaxLogitDifference;
    std::printf("{\"prompt\": %s, \"ids_equal\": %s, \"greedy_equal\": %s, \"logit_difference\": %.2e, "
                "\"norm_difference\": %.2e}\n",
                reference.at("prompt").dump().c_str(), c.ids_equal ? "true" : "false",
                c.greedy_equal ? "true" : "false", c.logit_difference, c.norm_difference);
  }
  std::printf("{\"all_equal\": %s, \"seconds\": %.2f}\n", all_equal ? "true" : "false", Now() - started);
  return all_equal ? 0 : 1;
}
