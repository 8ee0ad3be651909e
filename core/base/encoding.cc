#include "core/base/encoding.h"

namespace gdf {
namespace {

constexpr char kHex[] = "0123456789abcdef";
constexpr char kBase32[] = "abcdefghijklmnopqrstuvwxyz234567";

int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

int Base32Value(char c) {
  if (c >= 'a' && c <= 'z') return c - 'a';
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= '2' && c <= '7') return c - '2' + 26;
  return -1;
}

}  // namespace

std::string HexEncode(absl::Span<const uint8_t> bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (uint8_t b : bytes) {
    out.push_back(kHex[b >> 4]);
    out.push_back(kHex[b & 15]);
  }
  return out;
}

absl::StatusOr<std::string> HexDecode(std::string_view text) {
  if (text.size() % 2 != 0) return absl::InvalidArgumentError("hexadecimal text has an odd length");
  std::string out;
  out.reserve(text.size() / 2);
  for (size_t i = 0; i < text.size(); i += 2) {
    const int high = HexValue(text[i]), low = HexValue(text[i + 1]);
    if (high < 0 || low < 0) return absl::InvalidArgumentError("not a hexadecimal digit");
    out.push_back(static_cast<char>(high * 16 + low));
  }
  return out;
}

std::string Base32Encode(absl::Span<const uint8_t> bytes) {
  std::string out;
  uint32_t bits = 0;
  int have = 0;
  for (uint8_t b : bytes) {
    bits = (bits << 8) | b;
    have += 8;
    while (have >= 5) {
      have -= 5;
      out.push_back(kBase32[(bits >> have) & 31]);
    }
  }
  if (have > 0) out.push_back(kBase32[(bits << (5 - have)) & 31]);
  return out;
}

absl::StatusOr<std::string> Base32Decode(std::string_view text) {
  std::string out;
  uint32_t bits = 0;
  int have = 0;
  for (char c : text) {
    const int value = Base32Value(c);
    if (value < 0) return absl::InvalidArgumentError("not a base32 character");
    bits = (bits << 5) | static_cast<uint32_t>(value);
    have += 5;
    if (have >= 8) {
      have -= 8;
      out.push_back(static_cast<char>((bits >> have) & 255));
    }
  }
  if (have >= 5 || (bits & ((1u << have) - 1)) != 0) {
    return absl::InvalidArgumentError("base32 text has an impossible length or trailing bits");
  }
  return out;
}

}  // namespace gdf
