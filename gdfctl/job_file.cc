#include "gdfctl/job_file.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "gdfctl/path_expansion.h"

namespace gdf::ctl {
namespace {

constexpr uint64_t kMaxJobYamlBytes = 1 << 20;
constexpr uint64_t kMaxConfigBytes = 1 << 20;
constexpr uint64_t kMaxIndexBytes = 64 << 20;
constexpr size_t kMaxNameBytes = 200;  // leaves room for the number in a manifest's 255

// Side files of a model folder that go along, beside config.json and the weights.
constexpr const char* kModelFiles[] = {"tokenizer.json", "tokenizer_config.json", "generation_config.json"};
constexpr char kWeightsIndex[] = "model.safetensors.index.json";

// A file name as manifests allow it.
std::string SafeName(const std::string& path) {
  std::string name = BaseName(path);
  if (name.size() > kMaxNameBytes) name = name.substr(name.size() - kMaxNameBytes);
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                       c == '_' || c == '-';
    if (!plain) c = '_';
  }
  return name;
}

// Collects the files of one job, and what is wrong with its paths.
class Loader {
 public:
  Loader(FileSystem& files, const JobFileOptions& options, JobFile* job, config::Problems* problems)
      : files_(files), options_(options), job_(job), problems_(problems) {}

  absl::Status Load() {
    AddData();
    AddList("valid", job_->spec.data.validation_files, folder());
    if (job_->spec.data.tokenizer == config::TokenizerKind::kFile) AddTokenizer();
    if (job_->spec.model.from) {
      AddModel(*job_->spec.model.from);
    } else {
      job_->shape = job_->spec.model.shape;
    }
    return problems_->ToStatus();
  }

 private:
  std::string folder() const { return FolderName(options_.path); }

  void AddData() {
    if (options_.text.empty()) return AddList("data", job_->spec.data.files, folder());
    std::vector<config::PathEntry> entries;
    for (const std::string& path : options_.text) entries.push_back({path, problems_->AddOrigin("--text " + path)});
    AddList("data", entries, "");
  }

  void AddList(const std::string& input, const std::vector<config::PathEntry>& entries, const std::string& base) {
    std::vector<JobInput>& list = job_->inputs[input];
    for (const config::PathEntry& entry : entries) {
      absl::StatusOr<std::vector<LocalFile>> found = ExpandPath(files_, JoinPath(base, entry.path));
      if (!found.ok()) {
        problems_->Add(entry.at, std::string(found.status().message()));
        continue;
      }
      for (const LocalFile& file : *found) {
        list.push_back({absl::StrFormat("%05d-%s", list.size(), SafeName(file.path)), file.path, file.size});
      }
    }
    if (list.empty()) job_->inputs.erase(input);
  }

  void AddTokenizer() {
    const config::PathEntry& entry = job_->spec.data.tokenizer_file;
    const std::string path = JoinPath(folder(), entry.path);
    absl::StatusOr<FileInfo> info = files_.Stat(path);
    if (!info.ok() || info->is_directory) {
      problems_->Add(entry.at, info.ok() ? absl::StrCat(path, " is a folder; expected a tokenizer.json")
                                        : std::string(info.status().message()));
      return;
    }
    job_->inputs["tokenizer"].push_back({SafeName(path), path, info->size});
  }

  void AddModel(const config::PathEntry& from) {
    const std::string model = JoinPath(folder(), from.path);
    std::vector<JobInput>& list = job_->inputs["model"];
    const auto problem = [&](const absl::Status& status) { problems_->Add(from.at, std::string(status.message())); };

    const std::string config_path = JoinPath(model, "config.json");
    absl::StatusOr<std::string> json = files_.Read(config_path, kMaxConfigBytes);
    if (!json.ok()) return problem(json.status());
    job_->hf_config_json = *json;
    absl::StatusOr<config::ModelShape> shape = config::ModelShapeFromHfConfig(*json, config_path);
    if (!shape.ok()) return problem(shape.status());
    job_->shape = *shape;
    for (const config::ShapeProblem& unfit : config::ProblemsWithShape(job_->spec, *shape)) {
      problem(absl::InvalidArgumentError(absl::StrCat("'", unfit.field, "' ", unfit.message)));
    }

    list.push_back({"config.json", config_path, json->size()});
    for (const char* name : kModelFiles) {
      const std::string path = JoinPath(model, name);
      if (absl::StatusOr<FileInfo> info = files_.Stat(path); info.ok()) list.push_back({name, path, info->size});
    }
    if (absl::Status weights = AddWeights(model, &list); !weights.ok()) problem(weights);
    const bool tokenizer = std::any_of(list.begin(), list.end(), [](const JobInput& i) { return i.name == "tokenizer.json"; });
    if (job_->spec.data.tokenizer == config::TokenizerKind::kModel && !tokenizer) {
      problem(absl::NotFoundError(absl::StrCat(model, " has no tokenizer.json, which 'data.tokenizer: model' asks for")));
    }
  }

  // Every *.safetensors of the folder, and the index where there is one, whose files must be among them.
  absl::Status AddWeights(const std::string& model, std::vector<JobInput>* list) {
    GDF_ASSIGN_OR_RETURN(const std::vector<std::string> names, files_.List(model));
    for (const std::string& name : names) {
      if (!absl::EndsWith(name, ".safetensors") && name != kWeightsIndex) continue;
      GDF_ASSIGN_OR_RETURN(const FileInfo info, files_.Stat(JoinPath(model, name)));
      list->push_back({name, JoinPath(model, name), info.size});
    }
    const auto has = [&](const std::string& name) {
      return std::any_of(list->begin(), list->end(), [&](const JobInput& input) { return input.name == name; });
    };
    const auto weights = std::any_of(list->begin(), list->end(), [](const JobInput& input) {
      return absl::EndsWith(input.name, ".safetensors");
    });
    if (!weights) return absl::NotFoundError(absl::StrCat(model, " has no *.safetensors file"));
    if (!has(kWeightsIndex)) return absl::OkStatus();
    const std::string path = JoinPath(model, kWeightsIndex);
    GDF_ASSIGN_OR_RETURN(const std::string text, files_.Read(path, kMaxIndexBytes));
    const nlohmann::json index = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
      return absl::InvalidArgumentError(absl::StrCat(path, " is no index: expected an object with 'weight_map'"));
    }
    for (const auto& [tensor, file] : index["weight_map"].items()) {
      if (!file.is_string() || !has(file.get<std::string>())) {
        return absl::InvalidArgumentError(absl::StrCat(path, ": tensor '", tensor, "' is in ",
                                                       file.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace),
                                                       ", which is no file of the folder"));
      }
    }
    return absl::OkStatus();
  }

  FileSystem& files_;
  const JobFileOptions& options_;
  JobFile* job_;
  config::Problems* problems_;
};

// --text stands for data.text; a value for that key would be lost without a word.
absl::Status CheckTextIsGivenOnce(const std::vector<std::string>& overrides, config::Problems* problems) {
  for (const std::string& setting : overrides) {
    const std::string key = setting.substr(0, setting.find('='));
    if (key != "data" && key != "data.text" && key != "data.jsonl") continue;
    problems->Add(problems->AddOrigin(absl::StrCat("--set ", setting)), "--text gives the texts already; remove one of the two");
  }
  return problems->ToStatus();
}

}  // namespace

uint64_t JobFile::BytesOf(const std::string& input) const {
  const auto found = inputs.find(input);
  uint64_t bytes = 0;
  if (found != inputs.end()) {
    for (const JobInput& file : found->second) bytes += file.size;
  }
  return bytes;
}

uint64_t JobFile::TotalBytes() const {
  uint64_t bytes = 0;
  for (const auto& [name, files] : inputs) bytes += BytesOf(name);
  return bytes;
}

absl::StatusOr<JobFile> LoadJobFile(FileSystem& files, const JobFileOptions& options, config::Problems* problems) {
  JobFile job;
  GDF_ASSIGN_OR_RETURN(job.yaml, files.Read(options.path, kMaxJobYamlBytes));
  std::optional<config::JobSpec> spec = config::ParseJobSpec(job.yaml, options.overrides, problems);
  if (!spec) return problems->ToStatus();
  job.spec = *std::move(spec);
  if (!options.text.empty()) GDF_RETURN_IF_ERROR(CheckTextIsGivenOnce(options.overrides, problems));
  if (!options.text.empty()) {
    job.spec.data.format = config::DataFormat::kText;
    job.spec.data.files.clear();
    // The network's record shows what the file is called, not where it lies on this machine.
    for (const std::string& path : options.text) job.spec.data.files.push_back({SafeName(path), {}});
  }
  if (!options.text.empty() || !options.overrides.empty()) job.yaml = config::ToYaml(job.spec);
  GDF_RETURN_IF_ERROR(Loader(files, options, &job, problems).Load());
  return job;
}

absl::StatusOr<JobFile> LoadJobFile(FileSystem& files, const JobFileOptions& options) {
  config::Problems problems(options.path);
  return LoadJobFile(files, options, &problems);
}

absl::StatusOr<control::UploadFile> OpenForUpload(FileSystem& files, const JobInput& input) {
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> opened, files.OpenForRead(input.path));
  control::UploadFile upload;
  upload.name = input.name;
  upload.size = opened->size();
  upload.read = [file = std::shared_ptr<ReadableFile>(std::move(opened)),
                 offset = uint64_t{0}](absl::Span<uint8_t> out) mutable {
    const absl::Status read = file->ReadAt(offset, out);
    offset += out.size();
    return read;
  };
  return upload;
}

}  // namespace gdf::ctl
