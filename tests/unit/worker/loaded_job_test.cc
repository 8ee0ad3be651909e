// What an export says of the tokenizer, and that a job loads it again.
#include "gdfd/worker/loaded_job.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/unit/worker/test_models.h"

namespace gdf::worker {
namespace {

using Json = nlohmann::json;
using Files = std::vector<std::pair<std::string, std::string>>;

constexpr char kText[] = "héllo wörld, hello world; ";
constexpr char kGpt2[] = "{gpt2: {layers: 1, heads: 1, width: 4, context: 4}}";
constexpr char kLlama[] = "{llama: {layers: 1, heads: 1, width: 4, ffn_width: 4, context: 4}}";

absl::StatusOr<LoadedJob> Load(const std::string& kind, const std::string& model,
                               const std::string& tokenizer, const Files& files) {
  InputFiles inputs;
  for (const auto& [name, contents] : files) RequireOk(inputs.Add(name, Buffer(contents)));
  return LoadedJob::Load(
      absl::StrCat("name: t\nkind: ", kind, "\ndata: {text: [t.txt], sequence_length: 2, ",
                   "tokenizer: ", tokenizer, "}\ntrain: {steps: 1, batch_size: 1, ",
                   "optimizer: {lr: 1e-3}}\nrounds: {inner_steps: 1}\nmodel: ", model, "\n"),
      std::move(inputs));
}

Files FilesOf(const LoadedJob& job, const std::string& folder) {
  Files files;
  const train::ExportPlan plan = ValueOf(job.Export(config::WeightDtype::kFp32));
  for (const train::ExportPlan::File& file : plan.files) {
    files.emplace_back(absl::StrCat(folder, file.name), std::string(file.contents.view()));
  }
  return files;
}

Json JsonOf(const Files& files, const std::string& name) {
  for (const auto& [file, contents] : files) {
    if (file == name) return Json::parse(contents);
  }
  FAIL("no " << name);
  return {};
}

Files With(Files files, Files more) {
  files.insert(files.end(), more.begin(), more.end());
  return files;
}

TEST_CASE("worker: an export names no special ids that its tokenizer lacks, and loads again") {
  const std::string model = GENERATE(as<std::string>(), kGpt2, kLlama);
  const std::string kind = GENERATE(as<std::string>(), "byte", "char");
  const Files data = {{"data/t.txt", kText}};
  const LoadedJob job = ValueOf(Load("train", model, kind, data));
  const Files exported = FilesOf(job, "model/");
  REQUIRE(exported.size() == 3);
  const Json config = JsonOf(exported, "model/config.json");
  // Named and null: without the key `transformers` takes 50256 for GPT-2, 1 and 2 for Llama.
  CHECK((config.contains("bos_token_id") && config["bos_token_id"].is_null()));
  CHECK((config.contains("eos_token_id") && config["eos_token_id"].is_null()));
  CHECK(config["vocab_size"] == job.tokenizer().vocab_size());
  CHECK(JsonOf(exported, "model/tokenizer_config.json")["tokenizer_class"] ==
        "PreTrainedTokenizerFast");

  // As model.from of another job, whose export is the same but for the weights.
  const LoadedJob tuned = ValueOf(Load("finetune", "{from: f}", "model", With(exported, data)));
  CHECK(tuned.tokenizer().name() == kind);
  CHECK(std::vector<int32_t>(tuned.train_tokens().begin(), tuned.train_tokens().end()) ==
        std::vector<int32_t>(job.train_tokens().begin(), job.train_tokens().end()));
  const Files again = FilesOf(tuned, "model/");
  REQUIRE(again.size() == 3);
  for (const auto& [name, contents] : exported) CHECK(JsonOf(again, name) == Json::parse(contents));

  // As `generate` loads it.
  const LoadedJob sampled =
      ValueOf(Load("train", model, kind,
                   {{"model/config.json", config.dump()},
                    {"tokenizer/t.json", JsonOf(exported, "model/tokenizer.json").dump()}}));
  CHECK(sampled.tokenizer().name() == kind);
  const auto refused = sampled.tokenizer().Encode("hello €");
  CHECK(refused.ok() == (kind == "byte"));
  if (!refused.ok()) CHECK_THAT(refused.status().ToString(), Catch::Contains("U+20AC at offset 6"));
}

TEST_CASE("worker: a tokenizer other than the model's brings its own special ids") {
  std::string text;
  for (int i = 0; i < 10; ++i) text += kText;
  const std::string model = Json::parse(config::ModelShapeToHfConfig(TinyLlama(), "float32"))
                                .patch(Json::parse(R"([
      {"op": "replace", "path": "/vocab_size", "value": 300},
      {"op": "add", "path": "/bos_token_id", "value": 298},
      {"op": "add", "path": "/eos_token_id", "value": 299},
      {"op": "add", "path": "/pad_token_id", "value": 299}])"))
                                .dump();
  const Files files = {{"model/config.json", model},
                       {"model/generation_config.json", R"({"eos_token_id": [299], "top_k": 5})"},
                       {"model/tokenizer_config.json", R"({"eos_token": "</s>"})"},
                       {"data/t.txt", text}};
  const auto exported = [&files](const std::string& tokenizer, const Files& more) {
    return FilesOf(ValueOf(Load("finetune", "{from: f}", tokenizer, With(files, more))), "");
  };
  const Files bytes = exported("byte", {});
  for (const std::string name : {"config.json", "generation_config.json"}) {
    const Json configuration = JsonOf(bytes, name);
    CHECK(configuration["bos_token_id"].is_null());
    CHECK(configuration["eos_token_id"].is_null());
    CHECK_FALSE(configuration.contains("pad_token_id"));
  }
  CHECK(JsonOf(bytes, "generation_config.json")["top_k"] == 5);
  CHECK_FALSE(JsonOf(bytes, "tokenizer_config.json").contains("eos_token"));

  const std::string own = R"({"model": {"type": "BPE", "vocab": {"l": 0, "</s>": 7}, "merges": []},
      "added_tokens": [{"id": 7, "content": "</s>", "single_word": false, "lstrip": false,
                        "rstrip": false, "normalized": false, "special": true}]})";
  const Files file = exported("t.json", {{"tokenizer/t.json", own}});
  CHECK(JsonOf(file, "config.json")["eos_token_id"] == 7);
  CHECK(JsonOf(file, "generation_config.json")["eos_token_id"] == 7);
  CHECK(JsonOf(file, "tokenizer_config.json")["eos_token"] == "</s>");

  // The model's own tokenizer keeps all that the folder says.
  const Files kept = exported("model", {{"model/tokenizer.json", own}});
  CHECK(JsonOf(kept, "config.json")["eos_token_id"] == 299);
  CHECK(JsonOf(kept, "config.json")["pad_token_id"] == 299);
  CHECK(JsonOf(kept, "generation_config.json") == Json::parse(files[1].second));
  CHECK(JsonOf(kept, "tokenizer_config.json") == Json::parse(files[2].second));
}

}  // namespace
}  // namespace gdf::worker
