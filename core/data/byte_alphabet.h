// The alphabet in which byte-level BPE writes bytes: GPT-2's one-to-one map of the 256 bytes to
// printable characters (openai/gpt-2, bytes_to_unicode). Printable Latin-1 bytes are themselves,
// the others in order are U+0100 and up.
#ifndef GDF_CORE_DATA_BYTE_ALPHABET_H_
#define GDF_CORE_DATA_BYTE_ALPHABET_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace gdf::data {

// Appends each byte of `bytes` as its character, in UTF-8.
void AppendByteCharacters(std::string_view bytes, std::string* out);

// Appends the bytes that `token` spells; where any character of it is none of the alphabet (an
// added token with a space), its own UTF-8 bytes instead.
void AppendSpelledBytes(std::string_view token, std::string* out);

}  // namespace gdf::data

#endif  // GDF_CORE_DATA_BYTE_ALPHABET_H_
