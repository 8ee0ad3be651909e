#include "gdfd/worker/loaded_job.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/config/model_shape.h"
#include "core/tensor/safetensors.h"
#include "core/train/export_files.h"
#include "core/train/messages.h"
#include "gdfd/worker/params/parameters.h"

namespace gdf::worker {
namespace {

data::SourceOptions SourceOptionsOf(const config::DataSpec& spec) {
  return {.format = spec.format == config::DataFormat::kJsonl ? data::SourceFormat::kJsonl
                                                              : data::SourceFormat::kText,
          .text_field = spec.field};
}

// The ids of the tokenizer in use, null where it has none: where they are left out, `transformers`
// takes those of the model family's own tokenizer. It names none for padding.
void SetSpecialIds(const data::SpecialIds& ids, nlohmann::ordered_json* configuration) {
  const auto value = [](std::optional<int32_t> id) -> nlohmann::ordered_json {
    return id ? nlohmann::ordered_json(*id) : nlohmann::ordered_json(nullptr);
  };
  (*configuration)["bos_token_id"] = value(ids.bos);
  (*configuration)["eos_token_id"] = value(ids.eos);
  configuration->erase("pad_token_id");
}

// A configuration of a model's folder without the code that it may name, and with the special ids
// of another tokenizer than the folder's where that is in use.
Buffer ForExport(const Buffer& configuration, const std::optional<data::SpecialIds>& ids) {
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(configuration.view(), nullptr, false);
  if (!json.is_object() || (json.erase(train::kCodeKey) == 0 && !ids)) return configuration;
  if (ids) SetSpecialIds(*ids, &json);
  return Buffer(json.dump(2) + "\n");
}

std::string_view TorchDtype(config::WeightDtype dtype) {
  return dtype == config::WeightDtype::kBf16 ? "bfloat16" : "float32";
}

}  // namespace

absl::Status InputFiles::Add(std::string name, Buffer contents) {
  if (!files_.emplace(name, std::move(contents)).second) {
    return absl::InvalidArgumentError(absl::StrCat("input ", name, " comes twice"));
  }
  order_.push_back(std::move(name));
  return absl::OkStatus();
}

const Buffer* InputFiles::Find(std::string_view name) const {
  const auto it = files_.find(name);
  return it == files_.end() ? nullptr : &it->second;
}

std::vector<data::SourceFile> InputFiles::Sources(std::string_view folder) const {
  const std::string prefix = absl::StrCat(ToAbsl(folder), "/");
  std::vector<data::SourceFile> sources;
  for (const std::string& name : order_) {
    if (!absl::StartsWith(name, prefix)) continue;
    sources.push_back({name.substr(prefix.size()), files_.find(name)->second.view()});
  }
  return sources;
}

std::vector<std::string> InputFiles::ModelFiles(std::string_view suffix) const {
  std::vector<std::string> names;
  for (const std::string& name : order_) {
    if (absl::StartsWith(name, "model/") && absl::EndsWith(name, ToAbsl(suffix))) {
      names.push_back(name);
    }
  }
  return names;
}

void InputFiles::RemoveBulk() {
  const auto bulk = [](const std::string& name) {
    return absl::StartsWith(name, "data/") || absl::StartsWith(name, "valid/") ||
           absl::EndsWith(name, ".safetensors");
  };
  std::erase_if(order_, bulk);
  std::erase_if(files_, [&](const auto& file) { return bulk(file.first); });
}

absl::StatusOr<LoadedJob> LoadedJob::Load(std::string_view job_yaml, InputFiles inputs) {
  LoadedJob job;
  GDF_ASSIGN_OR_RETURN(job.spec_, config::ParseJobSpec(job_yaml, "job.yaml"));
  job.inputs_ = std::move(inputs);
  GDF_ASSIGN_OR_RETURN(job.tokenizer_, job.MakeTokenizer());
  GDF_RETURN_IF_ERROR(job.ReadShape());
  GDF_RETURN_IF_ERROR(job.ReadTokens());
  return job;
}

// What names the special ids, where the model's folder says.
std::string LoadedJob::TokenizerConfig() const {
  for (const char* name : {"model/tokenizer_config.json", "model/config.json"}) {
    if (const Buffer* config = inputs_.Find(name)) return std::string(config->view());
  }
  return {};
}

// A tokenizer that was handed over goes before what the job would make out of its data.
absl::StatusOr<std::unique_ptr<data::Tokenizer>> LoadedJob::MakeTokenizer() const {
  const std::vector<data::SourceFile> given = inputs_.Sources("tokenizer");
  if (!given.empty()) return data::ParseTokenizer(given[0].bytes, TokenizerConfig());
  switch (spec_.data.tokenizer) {
    case config::TokenizerKind::kByte:
      return data::MakeByteTokenizer();
    case config::TokenizerKind::kChar: {
      std::vector<data::SourceFile> texts = inputs_.Sources("data");
      for (data::SourceFile& file : inputs_.Sources("valid")) texts.push_back(std::move(file));
      return data::MakeCharTokenizerFor(texts, SourceOptionsOf(spec_.data));
    }
    case config::TokenizerKind::kModel:
      if (const Buffer* file = inputs_.Find("model/tokenizer.json")) {
        return data::ParseTokenizer(file->view(), TokenizerConfig());
      }
      return absl::InvalidArgumentError("the model's folder has no tokenizer.json");
    case config::TokenizerKind::kFile:
      return absl::InvalidArgumentError("data.tokenizer names a file that did not come");
  }
  return absl::InternalError("unknown kind of tokenizer");
}

absl::Status LoadedJob::ReadShape() {
  config::ModelShape shape;
  if (spec_.model.shape) {
    shape = *spec_.model.shape;
  } else {
    const Buffer* config = inputs_.Find("model/config.json");
    if (config == nullptr) {
      return absl::InvalidArgumentError("the model's folder has no config.json");
    }
    GDF_ASSIGN_OR_RETURN(shape, config::ModelShapeFromHfConfig(config->view(), "config.json"));
  }
  GDF_ASSIGN_OR_RETURN(shape_, config::WithVocab(std::move(shape), tokenizer_->vocab_size()));
  GDF_RETURN_IF_ERROR(config::ValidateModelShape(shape_));
  return config::ValidateWithShape(spec_, shape_);
}

absl::Status LoadedJob::ReadTokens() {
  const std::vector<data::SourceFile> texts = inputs_.Sources("data");
  if (texts.empty()) return absl::OkStatus();
  const std::vector<data::SourceFile> held_out = inputs_.Sources("valid");
  data::CorpusOptions options{.source = SourceOptionsOf(spec_.data),
                              .valid_fraction = spec_.data.validation_fraction,
                              .seq_len = spec_.data.sequence_length};
  if (!held_out.empty()) options.valid_fraction = 0;
  GDF_ASSIGN_OR_RETURN(training_, data::TokenizedCorpus::Build(texts, *tokenizer_, options));
  if (held_out.empty()) return absl::OkStatus();
  absl::StatusOr<data::TokenizedCorpus> built =
      data::TokenizedCorpus::Build(held_out, *tokenizer_, options);
  GDF_RETURN_IF_ERROR(Annotate(built.status(), "held-out files"));
  validation_ = *std::move(built);
  return absl::OkStatus();
}

absl::Span<const int32_t> LoadedJob::train_tokens() const {
  return training_ ? training_->train() : absl::Span<const int32_t>();
}

absl::Span<const int32_t> LoadedJob::valid_tokens() const {
  if (validation_) return validation_->tokens();
  return training_ ? training_->valid() : absl::Span<const int32_t>();
}

absl::Status LoadedJob::InitialParameters(absl::Span<float> out) const {
  if (spec_.model.shape) return InitParameters(shape_, spec_.train.seed, out);
  std::vector<tensor::SafetensorsView> views;
  for (const std::string& name : inputs_.ModelFiles(".safetensors")) {
    absl::StatusOr<tensor::SafetensorsView> view =
        tensor::SafetensorsView::Parse(inputs_.Find(name)->span());
    GDF_RETURN_IF_ERROR(Annotate(view.status(), name));
    views.push_back(*std::move(view));
  }
  if (views.empty()) {
    return absl::InvalidArgumentError("the model's folder has no .safetensors file");
  }
  return ReadParameters(shape_, views, out);
}

void LoadedJob::ReleaseInputs() { inputs_.RemoveBulk(); }

std::optional<data::SpecialIds> LoadedJob::OtherSpecialIds() const {
  if (spec_.data.tokenizer == config::TokenizerKind::kModel) return std::nullopt;
  return tokenizer_->special_ids();
}

// A fine-tuned model keeps its own config.json with the new type of weights.
std::string LoadedJob::ConfigJson(config::WeightDtype dtype) const {
  const Buffer* original = spec_.model.shape ? nullptr : inputs_.Find("model/config.json");
  const std::string text = original != nullptr
                               ? std::string(original->view())
                               : config::ModelShapeToHfConfig(shape_, TorchDtype(dtype));
  nlohmann::ordered_json json = nlohmann::ordered_json::parse(text);  // ReadShape took it
  json.erase(train::kCodeKey);
  json[json.contains("dtype") ? "dtype" : "torch_dtype"] = TorchDtype(dtype);
  if (const auto ids = OtherSpecialIds()) SetSpecialIds(*ids, &json);
  return json.dump(2) + "\n";
}

absl::StatusOr<train::ExportPlan> LoadedJob::Export(config::WeightDtype dtype) const {
  train::ExportPlan plan;
  GDF_ASSIGN_OR_RETURN(plan.layout, ExportLayout(shape_));
  plan.files.push_back({std::string(train::kConfigFile), Buffer(ConfigJson(dtype))});
  const std::optional<data::SpecialIds> other_ids = OtherSpecialIds();
  if (other_ids) {
    plan.files.push_back({"tokenizer.json", Buffer(tokenizer_->Serialize())});
    plan.files.push_back({"tokenizer_config.json", Buffer(tokenizer_->Config())});
  }
  for (const std::string_view name : train::kCompanionFiles) {
    const Buffer* file = inputs_.Find(absl::StrCat("model/", ToAbsl(name)));
    if (file == nullptr || (other_ids && name != "generation_config.json")) continue;
    plan.files.push_back(
        {std::string(name), train::IsConfiguration(name) ? ForExport(*file, other_ids) : *file});
  }
  return plan;
}

}  // namespace gdf::worker
