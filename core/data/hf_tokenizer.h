// A Hugging Face tokenizer.json with a BPE model: added tokens → normalizer → pre-tokenizer → BPE →
// post-processor, and the byte-level decoder back.
#ifndef GDF_CORE_DATA_HF_TOKENIZER_H_
#define GDF_CORE_DATA_HF_TOKENIZER_H_

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "core/data/json_fields.h"
#include "core/data/tokenizer.h"

namespace gdf::data {

// `json` is `bytes` parsed. See ParseTokenizer.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeHfTokenizer(const nlohmann::json& json,
                                                           std::string_view bytes,
                                                           std::string_view config_json);

}  // namespace gdf::data

#endif  // GDF_CORE_DATA_HF_TOKENIZER_H_
