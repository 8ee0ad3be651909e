// Character classes and normal forms, by ICU, as the Rust libraries under `tokenizers` see them.
#ifndef GDF_CORE_DATA_UNICODE_H_
#define GDF_CORE_DATA_UNICODE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace gdf::data {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// `text` (well-formed UTF-8) in a normal form of Unicode 9, whose tables `tokenizers` carries (0.23;
// found by comparing every code point): characters assigned later stay as they are and combine with
// nothing.
absl::StatusOr<std::string> Normalize(NormalForm form, std::string_view text);

// Every character by its own full lower-case mapping, whatever stands around it (so a final sigma
// is an ordinary one), like Rust's char::to_lowercase.
std::string ToLower(std::string_view text);

bool IsWhiteSpace(char32_t c);
// General categories Nd, Nl and No, like Rust's char::is_numeric.
bool IsNumeric(char32_t c);
// \w of Unicode technical standard 18, annex C.
bool IsWordCharacter(char32_t c);

}  // namespace gdf::data

#endif  // GDF_CORE_DATA_UNICODE_H_
