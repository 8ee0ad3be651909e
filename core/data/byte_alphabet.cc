#include "core/data/byte_alphabet.h"

#include <array>

#include "core/data/utf8.h"

namespace gdf::data {
namespace {

constexpr size_t kCharacters = 0x144;  // the last one is U+0143

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<int16_t, kCharacters> byte{};  // -1: not in the alphabet
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  for (int16_t& byte : alphabet.byte) byte = -1;
  char32_t next = 0x100;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || b >= 0xae;
    const char32_t c = printable ? static_cast<char32_t>(b) : next++;
    alphabet.character[static_cast<size_t>(b)] = c;
    alphabet.byte[c] = static_cast<int16_t>(b);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

void AppendByteCharacters(std::string_view bytes, std::string* out) {
  for (const char byte : bytes) {
    AppendUtf8(kAlphabet.character[static_cast<unsigned char>(byte)], out);
  }
}

void AppendSpelledBytes(std::string_view token, std::string* out) {
  const size_t begin = out->size();
  for (size_t pos = 0; pos < token.size();) {
    const char32_t c = NextCodePoint(token, &pos);
    const int byte = c < kCharacters ? kAlphabet.byte[c] : -1;
    if (byte < 0) {
      out->resize(begin);
      *out += token;
      return;
    }
    out->push_back(static_cast<char>(byte));
  }
}

}  // namespace gdf::data
