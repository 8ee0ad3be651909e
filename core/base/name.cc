#include "core/base/name.h"

#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/text.h"

namespace gdf {
namespace {

// Length of the well-formed UTF-8 sequence at the start of `text` (Unicode 14, table 3-7); 0 when there is none.
size_t SequenceLength(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  const uint8_t low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  return length;
}

bool IsControl(std::string_view sequence) {
  const uint8_t first = static_cast<uint8_t>(sequence[0]);
  if (sequence.size() == 1) return (first < 0x20 && first != '\n' && first != '\t') || first == 0x7F;
  return first == 0xC2 && static_cast<uint8_t>(sequence[1]) < 0xA0;  // U+0080 to U+009F
}

// What makes a terminal or a viewer show a line in another order or as two: U+2028 to U+202E and U+2066 to U+2069.
// The marks that texts in Arabic and Hebrew have between their words are none of these.
bool Reorders(std::string_view sequence) {
  if (sequence.size() != 3 || static_cast<uint8_t>(sequence[0]) != 0xE2) return false;
  const auto second = static_cast<uint8_t>(sequence[1]), third = static_cast<uint8_t>(sequence[2]);
  return (second == 0x80 && third >= 0xA8 && third <= 0xAE) || (second == 0x81 && third >= 0xA6 && third <= 0xA9);
}

}  // namespace

absl::Status CheckName(std::string_view what, std::string_view name) {
  bool good = !name.empty() && name.size() <= kMaxNameBytes && absl::ascii_isalnum(name[0]);
  for (const char c : name) good = good && (absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-');
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      ToAbsl(what), " '", absl::CHexEscape(ToAbsl(name.substr(0, 2 * kMaxNameBytes))),
      "' is not a name: expected 1 to ", kMaxNameBytes,
      " letters, digits, '.', '_' or '-', starting with a letter or a digit"));
}

absl::Status CheckText(std::string_view what, std::string_view text, size_t max_bytes) {
  if (text.size() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(what), " has ", text.size(), " bytes, at most ", max_bytes, " are allowed"));
  }
  for (size_t at = 0; at < text.size();) {
    const size_t length = SequenceLength(text.substr(at));
    if (length == 0 || IsControl(text.substr(at, length))) {
      return absl::InvalidArgumentError(
          absl::StrCat(ToAbsl(what), " has ", length == 0 ? "bytes that are not UTF-8" : "a control character",
                       " at byte ", at));
    }
    at += length;
  }
  return absl::OkStatus();
}

absl::Status CheckUtf8(std::string_view what, std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = SequenceLength(text.substr(at));
    if (length == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(ToAbsl(what), " has bytes that are not UTF-8 at byte ", at));
    }
    at += length;
  }
  return absl::OkStatus();
}

std::string SafeText(std::string_view text, size_t max_bytes) {
  std::string safe;
  while (!text.empty()) {
    size_t length = SequenceLength(text);
    const bool good = length != 0 && !IsControl(text.substr(0, length)) && !Reorders(text.substr(0, length));
    if (length == 0) length = 1;
    if (safe.size() + (good ? length : 1) > max_bytes) break;
    if (good) {
      safe.append(text.substr(0, length));
    } else {
      safe.push_back('?');
    }
    text.remove_prefix(length);
  }
  return safe;
}

}  // namespace gdf
