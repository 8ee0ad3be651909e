#include <catch2/catch.hpp>
#include <string>

#include "core/data/byte_alphabet.h"
#include "core/data/unicode.h"
#include "core/data/utf8.h"

namespace gdf::data {
namespace {

TEST_CASE("data: malformed UTF-8 is found at its first byte") {
  CHECK(FindInvalidUtf8("") == std::string_view::npos);
  CHECK(FindInvalidUtf8("plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80") == std::string_view::npos);
  CHECK(FindInvalidUtf8("0123456789\x80") == 10);
  CHECK(FindInvalidUtf8("\xc1\x81") == 0);           // overlong
  CHECK(FindInvalidUtf8("a\xe0\x9f\xbf") == 1);      // overlong
  CHECK(FindInvalidUtf8("a\xed\xa0\x80") == 1);      // surrogate
  CHECK(FindInvalidUtf8("a\xf4\x90\x80\x80") == 1);  // beyond U+10FFFF
  CHECK(FindInvalidUtf8("a\xe2\x82") == 1);          // cut
}

// The example of Unicode 15, section 3.9, table 3-11.
TEST_CASE("data: maximal malformed parts become one U+FFFD each") {
  const std::string r = "\xef\xbf\xbd";
  CHECK(ToValidUtf8("\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41") == r + r + r + r + "A");
  CHECK(ToValidUtf8("\xed\xa0\x80") == r + r + r);
  CHECK(ToValidUtf8("ok") == "ok");
}

TEST_CASE("data: code points are walked both ways") {
  const std::string text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
  std::string copy;
  for (size_t pos = 0; pos < text.size();) AppendUtf8(NextCodePoint(text, &pos), &copy);
  CHECK(copy == text);
  size_t end = text.size();
  CHECK(PreviousCodePoint(text, &end) == 0x1f600);
  CHECK(PreviousCodePoint(text, &end) == 0x20ac);
  CHECK(end == 3);
  CHECK(CodePointName(0xe9) == "U+00E9");
}

TEST_CASE("data: normal forms") {
  CHECK(*Normalize(NormalForm::kNfc, "e\u0301") == "\u00e9");
  CHECK(*Normalize(NormalForm::kNfd, "\u00e9") == "e\u0301");
  CHECK(*Normalize(NormalForm::kNfkc, "\ufb01") == "fi");
  CHECK(*Normalize(NormalForm::kNfkd, "\u00bd") == "1\u20442");
  CHECK(*Normalize(NormalForm::kNfc, "a\u0301\u0323") == "\u1ea1\u0301");
  // U+0898 came with Unicode 14: nothing is moved over it.
  CHECK(*Normalize(NormalForm::kNfc, "b\u0898\u0323") == "b\u0898\u0323");
}

TEST_CASE("data: lower case and classes") {
  CHECK(ToLower("\u00c9T\u0130\u03a3") == "\u00e9ti\u0307\u03c3");
  CHECK(IsNumeric(U'\u0663'));
  CHECK(IsNumeric(U'\u00bd'));
  CHECK_FALSE(IsNumeric(U'x'));
  CHECK(IsWordCharacter(U'_'));
  CHECK(IsWordCharacter(U'\u200d'));
  CHECK_FALSE(IsWordCharacter(U'-'));
  CHECK(IsWhiteSpace(U'\u2003'));
  CHECK_FALSE(IsWhiteSpace(U'\u180e'));
}

// openai/gpt-2: space is U+0120, newline U+010A, 0xAD U+0143.
TEST_CASE("data: byte alphabet of GPT-2") {
  std::string out;
  AppendByteCharacters(" \nA\xad\xff", &out);
  CHECK(out == "\u0120\u010aA\u0143\u00ff");
  std::string bytes;
  AppendSpelledBytes(out, &bytes);
  CHECK(bytes == " \nA\xad\xff");
  bytes.clear();
  AppendSpelledBytes("a \u0120", &bytes);  // a space is not in the alphabet: as it stands
  CHECK(bytes == "a \u0120");
}

}  // namespace
}  // namespace gdf::data
