// A job.yaml with everything that it names: read, checked as far as that is cheap, and ready to be uploaded.
#ifndef GDF_GDFCTL_JOB_FILE_H_
#define GDF_GDFCTL_JOB_FILE_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/file_system.h"
#include "core/config/job_spec.h"
#include "core/control/client.h"

namespace gdf::ctl {

struct JobFileOptions {
  std::string path;
  std::vector<std::string> text = {};       // instead of data.text, relative to the current folder
  std::vector<std::string> overrides = {};  // "train.steps=400", as config::ParseJobSpec takes them
};

struct JobInput {
  std::string name;  // within its manifest
  std::string path;
  uint64_t size = 0;
};

struct JobFile {
  config::JobSpec spec;
  std::string yaml;  // the user's text, or the canonical one when something was overridden
  // Manifest name ("data", "valid", "tokenizer", "model") to its files. Files of data are "00000-basename": the number
  // keeps the order of the list.
  std::map<std::string, std::vector<JobInput>> inputs;
  std::string hf_config_json;  // of model.from, else empty
  std::optional<config::ModelShape> shape;  // of model.from or of the spec; its vocabulary may be open

  uint64_t BytesOf(const std::string& input) const;
  uint64_t TotalBytes() const;
};

// Parses with the overrides, expands every path and reads the model folder's config.json and index.
// kInvalidArgument with the place of everything that is wrong, which `problems` lists.
absl::StatusOr<JobFile> LoadJobFile(FileSystem& files, const JobFileOptions& options, config::Problems* problems);
absl::StatusOr<JobFile> LoadJobFile(FileSystem& files, const JobFileOptions& options);

// Reads the data: UTF-8, JSON lines with the field, long enough for one sequence. kInvalidArgument names the file.
absl::Status CheckData(FileSystem& files, const JobFile& job);

// A file as Client::Upload reads it.
absl::StatusOr<control::UploadFile> OpenForUpload(FileSystem& files, const JobInput& input);

}  // namespace gdf::ctl

#endif  // GDF_GDFCTL_JOB_FILE_H_
