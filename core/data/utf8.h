// UTF-8 as Unicode defines it: checking, walking, writing and repairing.
#ifndef GDF_CORE_DATA_UTF8_H_
#define GDF_CORE_DATA_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace gdf::data {

// The offset of the first byte that does not belong to well-formed UTF-8 (Unicode 15, table 3-7: no
// overlong forms, no surrogates), or npos.
size_t FindInvalidUtf8(std::string_view text);

// kInvalidArgument with the offset and the value of the first wrong byte.
absl::Status CheckUtf8(std::string_view text);

// The code point that begins at `*pos`, which moves behind it. `text` is well-formed.
char32_t NextCodePoint(std::string_view text, size_t* pos);

// The code point that ends at `*pos` > 0, which moves to its first byte. `text` is well-formed.
char32_t PreviousCodePoint(std::string_view text, size_t* pos);

void AppendUtf8(char32_t code_point, std::string* out);

// `bytes` with U+FFFD for each maximal part that is no UTF-8 (Unicode 15, section 3.9), which is
// what Rust's String::from_utf8_lossy gives.
std::string ToValidUtf8(std::string bytes);

// "U+00E9".
std::string CodePointName(char32_t code_point);

}  // namespace gdf::data

#endif  // GDF_CORE_DATA_UTF8_H_
