#include "core/data/utf8.h"

#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gdf::data {
namespace {

uint8_t ByteAt(std::string_view text, size_t pos) { return static_cast<uint8_t>(text[pos]); }

// The length of the sequence that begins at `pos`. Where it is malformed, `*valid` is false and the
// length is that of its maximal well-formed beginning, at least 1.
size_t SequenceLength(std::string_view text, size_t pos, bool* valid) {
  *valid = true;
  const uint8_t lead = ByteAt(text, pos);
  if (lead < 0x80) return 1;
  uint8_t low = 0x80, high = 0xbf;  // what the second byte may be
  size_t length;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) low = 0xa0;
    if (lead == 0xed) high = 0x9f;
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) low = 0x90;
    if (lead == 0xf4) high = 0x8f;
  } else {
    *valid = false;
    return 1;
  }
  for (size_t i = 1; i < length; ++i) {
    if (pos + i >= text.size() || ByteAt(text, pos + i) < low || ByteAt(text, pos + i) > high) {
      *valid = false;
      return i;
    }
    low = 0x80;
    high = 0xbf;
  }
  return length;
}

}  // namespace

size_t FindInvalidUtf8(std::string_view text) {
  size_t pos = 0;
  while (pos < text.size()) {
    if (pos + 8 <= text.size()) {
      uint64_t word;
      std::memcpy(&word, text.data() + pos, sizeof(word));
      if ((word & 0x8080808080808080u) == 0) {
        pos += 8;
        continue;
      }
    }
    bool valid;
    const size_t length = SequenceLength(text, pos, &valid);
    if (!valid) return pos;
    pos += length;
  }
  return std::string_view::npos;
}

absl::Status CheckUtf8(std::string_view text) {
  const size_t pos = FindInvalidUtf8(text);
  if (pos == std::string_view::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("byte 0x%02x at offset %d is not UTF-8; convert the text to UTF-8 first",
                      ByteAt(text, pos), pos));
}

char32_t NextCodePoint(std::string_view text, size_t* pos) {
  const uint8_t lead = ByteAt(text, *pos);
  if (lead < 0x80) {
    ++*pos;
    return lead;
  }
  const size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  char32_t code_point = lead & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    code_point = code_point << 6 | (ByteAt(text, *pos + i) & 0x3fu);
  }
  *pos += length;
  return code_point;
}

char32_t PreviousCodePoint(std::string_view text, size_t* pos) {
  do {
    --*pos;
  } while ((ByteAt(text, *pos) & 0xc0) == 0x80);
  size_t at = *pos;
  return NextCodePoint(text, &at);
}

void AppendUtf8(char32_t code_point, std::string* out) {
  const auto put = [out](char32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xc0 | code_point >> 6);
    put(0x80 | (code_point & 0x3f));
  } else if (code_point < 0x10000) {
    put(0xe0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3f));
    put(0x80 | (code_point & 0x3f));
  } else {
    put(0xf0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3f));
    put(0x80 | (code_point >> 6 & 0x3f));
    put(0x80 | (code_point & 0x3f));
  }
}

std::string ToValidUtf8(std::string bytes) {
  if (FindInvalidUtf8(bytes) == std::string_view::npos) return bytes;
  std::string out;
  out.reserve(bytes.size() + 8);
  for (size_t pos = 0; pos < bytes.size();) {
    bool valid;
    const size_t length = SequenceLength(bytes, pos, &valid);
    if (valid) {
      out.append(bytes, pos, length);
    } else {
      AppendUtf8(0xfffd, &out);
    }
    pos += length;
  }
  return out;
}

std::string CodePointName(char32_t code_point) {
  return absl::StrFormat("U+%04X", static_cast<uint32_t>(code_point));
}

}  // namespace gdf::data
