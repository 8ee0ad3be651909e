// The files beside the weights that an export may have: those that GDF itself writes. What a
// worker, another node or a disk gives is held against this one list, so that an export brings its
// user no file that somebody else thought of, and no code.
#ifndef GDF_CORE_TRAIN_EXPORT_FILES_H_
#define GDF_CORE_TRAIN_EXPORT_FILES_H_

#include <string_view>

#include "absl/status/status.h"

namespace gdf::train {

// Of a model's folder, handed on as they are; config.json is written anew.
inline constexpr std::string_view kCompanionFiles[] = {"tokenizer.json",
                                                       "tokenizer_config.json",
                                                       "special_tokens_map.json",
                                                       "added_tokens.json",
                                                       "vocab.json",
                                                       "merges.txt",
                                                       "generation_config.json",
                                                       "chat_template.jinja"};
inline constexpr std::string_view kConfigFile = "config.json";
// Under this key a configuration names Python files for `transformers` to load.
inline constexpr char kCodeKey[] = "auto_map";

bool IsExportFileName(std::string_view name);
// Whether a configuration, a file whose name says so, may name code.
bool IsConfiguration(std::string_view name);
// kInvalidArgument, naming the file, when its name is none of these, or it is a configuration that
// is no JSON object, is larger than kMaxConfigurationBytes or names code.
absl::Status CheckExportFile(std::string_view name, std::string_view contents);
inline constexpr size_t kMaxConfigurationBytes = size_t{8} << 20;  // of added tokens, mostly

}  // namespace gdf::train

#endif  // GDF_CORE_TRAIN_EXPORT_FILES_H_
