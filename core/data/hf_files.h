// The byte and the character tokenizer as Hugging Face files, which `transformers` loads and from
// which ParseTokenizer makes them again (docs/formats/tokenizers.md).
#ifndef GDF_CORE_DATA_HF_FILES_H_
#define GDF_CORE_DATA_HF_FILES_H_

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace gdf::data {

// tokenizer.json of one id a byte, in the form in which the `tokenizers` library saves it.
nlohmann::json HfByteFile();

// tokenizer.json of one id a character, its place in `alphabet` (ascending). In the library too a
// character outside the alphabet is an error.
nlohmann::json HfCharFile(absl::Span<const char32_t> alphabet);

// The tokens of a tokenizer.json in ascending order, where each is one character; else none.
std::vector<char32_t> FindHfCharacters(const nlohmann::json& file);

// tokenizer_config.json: which tokens begin and end a document, and that `transformers` takes
// tokenizer.json as it is instead of what it knows of the model's family.
std::string HfConfigFile(const std::optional<std::string>& bos,
                         const std::optional<std::string>& eos);

}  // namespace gdf::data

#endif  // GDF_CORE_DATA_HF_FILES_H_
