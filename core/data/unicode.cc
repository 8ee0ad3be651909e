#include "core/data/unicode.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>
#include <unicode/uniset.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "core/data/utf8.h"

namespace gdf::data {
namespace {

const icu::Normalizer2* GetNormalizer(NormalForm form, UErrorCode* error) {
  switch (form) {
    case NormalForm::kNfc:
      return icu::Normalizer2::getNFCInstance(*error);
    case NormalForm::kNfd:
      return icu::Normalizer2::getNFDInstance(*error);
    case NormalForm::kNfkc:
      return icu::Normalizer2::getNFKCInstance(*error);
    case NormalForm::kNfkd:
      break;
  }
  return icu::Normalizer2::getNFKDInstance(*error);
}

absl::Status IcuError(UErrorCode error) {
  return absl::InternalError(absl::StrCat("ICU: ", u_errorName(error)));
}

// Null where ICU could not make it.
const icu::UnicodeSet* AssignedInUnicode9() {
  static const icu::UnicodeSet* const set = []() -> const icu::UnicodeSet* {
    UErrorCode error = U_ZERO_ERROR;
    auto made =
        std::make_unique<icu::UnicodeSet>(icu::UnicodeString::fromUTF8("[:age=9.0:]"), error);
    if (U_FAILURE(error)) return nullptr;
    made->freeze();
    return made.release();
  }();
  return set;
}

bool IsAscii(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::string> Normalize(NormalForm form, std::string_view text) {
  if (IsAscii(text)) return std::string(text);
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* base = GetNormalizer(form, &error);
  const icu::UnicodeSet* assigned = AssignedInUnicode9();
  if (U_FAILURE(error)) return IcuError(error);
  if (assigned == nullptr) return IcuError(U_MISSING_RESOURCE_ERROR);
  const icu::FilteredNormalizer2 normalizer(*base, *assigned);
  std::string out;
  icu::StringByteSink<std::string> sink(&out, static_cast<int32_t>(text.size()));
  normalizer.normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())),
                           sink, nullptr, error);
  if (U_FAILURE(error)) return IcuError(error);
  return out;
}

std::string ToLower(std::string_view text) {
  constexpr char32_t kCapitalIWithDot = 0x130;  // the only one whose lower case is two characters
  std::string out;
  out.reserve(text.size());
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = NextCodePoint(text, &pos);
    if (c == kCapitalIWithDot) {
      out += "i\xcc\x87";
    } else {
      AppendUtf8(static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))), &out);
    }
  }
  return out;
}

bool IsWhiteSpace(char32_t c) { return u_isUWhiteSpace(static_cast<UChar32>(c)); }

bool IsNumeric(char32_t c) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & U_GC_N_MASK) != 0; }

bool IsWordCharacter(char32_t c) {
  const auto code_point = static_cast<UChar32>(c);
  constexpr uint32_t kCategories = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return u_isUAlphabetic(code_point) || (U_GET_GC_MASK(code_point) & kCategories) != 0 ||
         u_hasBinaryProperty(code_point, UCHAR_JOIN_CONTROL);
}

}  // namespace gdf::data
