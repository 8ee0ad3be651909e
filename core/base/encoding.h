// Text forms of bytes: hexadecimal and RFC 4648 base32 (lower case, no padding).
#ifndef GDF_CORE_BASE_ENCODING_H_
#define GDF_CORE_BASE_ENCODING_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gdf {

std::string HexEncode(absl::Span<const uint8_t> bytes);
// kInvalidArgument on an odd length or a character that is not a hexadecimal digit.
absl::StatusOr<std::string> HexDecode(std::string_view text);

std::string Base32Encode(absl::Span<const uint8_t> bytes);
// Accepts either case. kInvalidArgument on a foreign character, an impossible length or set trailing bits,
// so that every byte string has exactly one text.
absl::StatusOr<std::string> Base32Decode(std::string_view text);

// The bytes of a string and back, for functions that take one and have the other.
inline absl::Span<const uint8_t> AsBytes(std::string_view s) {
  return {reinterpret_cast<const uint8_t*>(s.data()), s.size()};
}
inline std::string_view AsString(absl::Span<const uint8_t> s) {
  return {reinterpret_cast<const char*>(s.data()), s.size()};
}

}  // namespace gdf

#endif  // GDF_CORE_BASE_ENCODING_H_
