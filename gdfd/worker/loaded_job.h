// What a worker makes of a job and the files it was handed: tokens, tokenizer, model shape and
// first parameters. Free of libtorch.
#ifndef GDF_GDFD_WORKER_LOADED_JOB_H_
#define GDF_GDFD_WORKER_LOADED_JOB_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/buffer.h"
#include "core/config/job_spec.h"
#include "core/data/dataset.h"
#include "core/data/tokenizer.h"
#include "core/train/worker_session.h"

namespace gdf::worker {

// Input files by name, as train::InputFile names them, in the order given; contents mapped.
class InputFiles {
 public:
  // kInvalidArgument for a name that came before.
  absl::Status Add(std::string name, Buffer contents);

  // The contents of `name`, or nullptr.
  const Buffer* Find(std::string_view name) const;
  // The files below "FOLDER/", in the order they were added.
  std::vector<data::SourceFile> Sources(std::string_view folder) const;
  // The names below "model/" that end in `suffix`.
  std::vector<std::string> ModelFiles(std::string_view suffix) const;
  // Unmaps the texts and the weights, which are no longer found then.
  void RemoveBulk();

 private:
  std::vector<std::string> order_;
  std::map<std::string, Buffer, std::less<>> files_;
};

// One job, read and checked. A job without data ("data/") can be sampled from and not trained.
class LoadedJob {
 public:
  // kInvalidArgument: the job, its data or its model's files cannot be used, and why.
  static absl::StatusOr<LoadedJob> Load(std::string_view job_yaml, InputFiles inputs);

  const config::JobSpec& spec() const { return spec_; }
  const config::ModelShape& shape() const { return shape_; }  // vocab set
  const data::Tokenizer& tokenizer() const { return *tokenizer_; }

  bool has_data() const { return training_.has_value(); }
  absl::Span<const int32_t> train_tokens() const;
  absl::Span<const int32_t> valid_tokens() const;

  // θ_0: model.from's, or drawn from the job's seed. `out`: [num_params] of ParameterLayout(shape).
  // kInvalidArgument: the model's files lack a parameter or disagree with its config.json.
  absl::Status InitialParameters(absl::Span<float> out) const;

  // Unmaps the files that were read for good: texts and, with them, the model's weights, after which
  // there are no InitialParameters any more.
  void ReleaseInputs();

  // config.json, the tokenizer and what else `transformers` reads beside the weights.
  absl::StatusOr<train::ExportPlan> Export(config::WeightDtype dtype) const;

 private:
  LoadedJob() = default;
  absl::StatusOr<std::unique_ptr<data::Tokenizer>> MakeTokenizer() const;
  absl::Status ReadTokens();
  absl::Status ReadShape();
  std::string TokenizerConfig() const;
  std::string ConfigJson(config::WeightDtype dtype) const;
  // Of the tokenizer, where it is another than that of the model's folder.
  std::optional<data::SpecialIds> OtherSpecialIds() const;

  config::JobSpec spec_;
  InputFiles inputs_;
  std::unique_ptr<data::Tokenizer> tokenizer_;
  config::ModelShape shape_;
  std::optional<data::TokenizedCorpus> training_;
  std::optional<data::TokenizedCorpus> validation_;  // of data.validation_files
};

}  // namespace gdf::worker

#endif  // GDF_GDFD_WORKER_LOADED_JOB_H_
