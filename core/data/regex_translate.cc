// A recursive-descent reader of the part of Oniguruma's Ruby syntax that tokenizers use, writing
// PCRE2 with every class spelled out, since the two libraries' short forms differ:
//   \s  White_Space in Oniguruma; PCRE2 adds U+180E
//   \w  Oniguruma adds ² ³ ¹ ¼ ½ ¾ to Alphabetic, M, Nd and Pc; PCRE2 has L, N and _
//   .   all but \n in Oniguruma; PCRE2's depends on its build
//   \p  Oniguruma's scripts are plain, PCRE2's are script extensions
//   {n,m}+ repeats the interval in Oniguruma and is possessive in PCRE2
// General categories were compared for every code point that Unicode 14 assigns (PCRE2 10.42
// against Oniguruma 6.9.10): they are equal but for U+1171E, hence Mn and Mc are refused.
#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/data/regex.h"
#include "core/data/utf8.h"

namespace gdf::data {
namespace {

constexpr int kMaxNesting = 64;
constexpr int kMaxRepeat = 1000;
constexpr size_t kMaxPatternBytes = 16 * 1024;

constexpr std::string_view kSpace =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNotSpace =
    R"(\x00-\x08\x0e-\x1f\x21-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
constexpr std::string_view kWord =
    R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";

constexpr std::string_view kCategories[] = {"C",  "Cc", "Cf", "Cn", "Co", "L",  "Ll", "Lm", "Lo",
                                            "Lt", "Lu", "M",  "Me", "N",  "Nd", "Nl", "No", "P",
                                            "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S",  "Sc",
                                            "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs"};
constexpr std::string_view kScripts[] = {"Arabic", "Cyrillic", "Greek",    "Han",   "Hangul",
                                         "Hebrew", "Hiragana", "Katakana", "Latin", "Thai"};

template <typename Names>
bool Contains(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// What an escape or a character of the pattern stands for.
struct Item {
  bool is_set = false;
  char32_t code_point = 0;  // !is_set
  std::string members;      // is_set: written inside [ ]
  bool negated = false;     // is_set: the set of all others
};

std::string Quote(char32_t c) {
  if (c < 0x80 && absl::ascii_isalnum(static_cast<unsigned char>(c))) {
    return std::string(1, static_cast<char>(c));
  }
  return absl::StrFormat("\\x{%x}", static_cast<uint32_t>(c));
}

class Translator {
 public:
  explicit Translator(std::string_view pattern) : in_(pattern) {}

  absl::StatusOr<std::string> Run() {
    if (Accept("(?i)")) caseless_ = true;
    if (caseless_) out_ += "(?i)";
    GDF_RETURN_IF_ERROR(Alternatives(0));
    if (!AtEnd()) return Malformed("unmatched )");
    return std::move(out_);
  }

 private:
  bool AtEnd() const { return pos_ >= in_.size(); }
  char Peek() const { return in_[pos_]; }
  bool Accept(std::string_view token) {
    if (in_.substr(pos_, token.size()) != token) return false;
    pos_ += token.size();
    return true;
  }

  absl::Status Malformed(std::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("regular expression \"", ToAbsl(in_),
                                                   "\": ", ToAbsl(what), " at offset ", pos_));
  }
  absl::Status Refused(std::string_view what) const {
    return absl::UnimplementedError(absl::StrCat("regular expression \"", ToAbsl(in_),
                                                 "\": ", ToAbsl(what), " at offset ", pos_,
                                                 " is not supported"));
  }

  absl::Status Alternatives(int nesting) {
    if (nesting > kMaxNesting) return Refused("nesting this deep");
    while (true) {
      last_literal_ = 0;
      while (!AtEnd() && Peek() != '|' && Peek() != ')') GDF_RETURN_IF_ERROR(Term(nesting));
      if (!Accept("|")) return absl::OkStatus();
      out_ += '|';
    }
  }

  absl::Status Term(int nesting) {
    const size_t atom_begin = out_.size();
    bool repeatable = true;
    GDF_RETURN_IF_ERROR(Atom(nesting, &repeatable));
    return Quantifier(atom_begin, repeatable);
  }

  absl::Status Atom(int nesting, bool* repeatable) {
    const char c = Peek();
    if (c == '(') return Group(nesting, repeatable);
    if (c != '\\') {
      if (c == '[') return Class();
      if (c == '.') {
        ++pos_;
        out_ += "[^\\n]";
        last_literal_ = 0;
        return absl::OkStatus();
      }
      if (c == '^' || c == '$') {
        ++pos_;
        out_ += c;
        last_literal_ = 0;
        *repeatable = false;
        return absl::OkStatus();
      }
      if (c == '*' || c == '+' || c == '?') return Malformed("nothing to repeat");
      if (c == '{') return Refused("a { that begins no interval");
    } else if (Accept("\\A") || Accept("\\z")) {
      absl::StrAppend(&out_, "\\", std::string(1, in_[pos_ - 1]));
      *repeatable = false;
      return absl::OkStatus();
    }
    GDF_ASSIGN_OR_RETURN(const Item item, ReadItem());
    if (item.is_set) {
      absl::StrAppend(&out_, item.negated ? "[^" : "[", item.members, "]");
      last_literal_ = 0;
      return absl::OkStatus();
    }
    return Literal(item.code_point);
  }

  // Oniguruma folds "ss" to ß and "fi" to a ligature, PCRE2 folds single characters only.
  absl::Status Literal(char32_t c) {
    if (caseless_) {
      if (c >= 0x80) return Refused("a character beyond ASCII without regard to case");
      const char lower = absl::ascii_tolower(static_cast<unsigned char>(c));
      const std::string pair = {last_literal_, lower};
      for (const std::string_view folded : {"ss", "st", "ff", "fi", "fl"}) {
        if (pair == folded) return Refused("a pair of letters that folds to one character");
      }
      last_literal_ = lower;
    }
    out_ += Quote(c);
    return absl::OkStatus();
  }

  absl::Status Group(int nesting, bool* repeatable) {
    const bool outer_caseless = caseless_;
    std::string_view open = "(?:";
    if (Accept("(?i:")) {
      caseless_ = true;
      open = "(?i:";
    } else if (Accept("(?-i:")) {
      caseless_ = false;
      open = "(?-i:";
    } else if (Accept("(?:")) {
    } else if (Accept("(?>")) {
      open = "(?>";
    } else if (Accept("(?=") || Accept("(?!")) {
      open = in_.substr(pos_ - 3, 3);
      *repeatable = false;
    } else if (Accept("(?<=") || Accept("(?<!")) {
      open = in_.substr(pos_ - 4, 4);
      *repeatable = false;
    } else if (in_.substr(pos_, 2) == "(?") {
      return Refused("this kind of group");
    } else {
      ++pos_;  // capturing makes no difference: nothing refers back
    }
    out_ += open;
    GDF_RETURN_IF_ERROR(Alternatives(nesting + 1));
    if (!Accept(")")) return Malformed("missing )");
    out_ += ')';
    caseless_ = outer_caseless;
    last_literal_ = 0;
    return absl::OkStatus();
  }

  absl::Status Quantifier(size_t atom_begin, bool repeatable) {
    const size_t begin = pos_;
    bool interval = false, fixed = false;
    std::string repeat;
    if (Accept("*") || Accept("+") || Accept("?")) {
      repeat = in_[begin];
    } else if (!AtEnd() && Peek() == '{') {
      GDF_ASSIGN_OR_RETURN(repeat, Interval(&fixed));
      interval = true;
    } else {
      return absl::OkStatus();
    }
    if (!repeatable) return Refused("repeating an assertion");
    last_literal_ = 0;
    if (Accept("?")) {
      if (fixed) return Refused("{n}?");
      repeat += '?';
    } else if (Accept("+")) {
      if (interval) {
        out_.insert(atom_begin, "(?:");
        repeat += ')';
      }
      repeat += '+';
    }
    out_ += repeat;
    if (!AtEnd() && (Peek() == '*' || Peek() == '+' || Peek() == '?')) {
      return Refused("a repeated repetition");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> Interval(bool* fixed) {
    ++pos_;
    int low = 0, high = -1;
    const bool has_low = ReadNumber(&low);
    bool has_high = false;
    *fixed = !Accept(",");
    if (!*fixed) has_high = ReadNumber(&high);
    if (!Accept("}") || !(has_low || has_high)) return Refused("a { that begins no interval");
    if (low > kMaxRepeat || high > kMaxRepeat) return Refused("so large an interval");
    if (*fixed) return absl::StrCat("{", low, "}");
    if (!has_high) return absl::StrCat("{", low, ",}");
    if (high < low) return Refused("an interval whose end is before its begin");
    return absl::StrCat("{", low, ",", high, "}");
  }

  bool ReadNumber(int* value) {
    const size_t begin = pos_;
    *value = 0;
    while (!AtEnd() && absl::ascii_isdigit(static_cast<unsigned char>(Peek()))) {
      *value = std::min(*value * 10 + (Peek() - '0'), kMaxRepeat + 1);
      ++pos_;
    }
    return pos_ > begin;
  }

  absl::Status Class() {
    ++pos_;
    const bool negated = Accept("^");
    if (negated && caseless_) return Refused("a negated class without regard to case");
    if (!AtEnd() && Peek() == ']') return Refused("a class that begins with ]");
    std::string members;
    while (!Accept("]")) {
      if (AtEnd()) return Malformed("missing ]");
      if (Peek() == '[') return Refused("a class inside a class");
      if (in_.substr(pos_, 2) == "&&") return Refused("an intersection of classes");
      GDF_RETURN_IF_ERROR(ClassMember(&members));
    }
    absl::StrAppend(&out_, negated ? "[^" : "[", members, "]");
    last_literal_ = 0;
    return absl::OkStatus();
  }

  absl::Status ClassMember(std::string* members) {
    GDF_ASSIGN_OR_RETURN(const Item item, ReadItem());
    const bool range = !AtEnd() && Peek() == '-' && pos_ + 1 < in_.size() && in_[pos_ + 1] != ']';
    if (item.is_set) {
      if (range) return Refused("a set as the begin of a range");
      if (!item.negated) {
        *members += item.members;
      } else if (item.members == kSpace) {
        *members += kNotSpace;
      } else {
        return Refused("\\W inside a class");
      }
      return absl::OkStatus();
    }
    if (caseless_ && item.code_point >= 0x80) {
      return Refused("a character beyond ASCII without regard to case");
    }
    *members += Quote(item.code_point);
    if (!range) return absl::OkStatus();
    ++pos_;
    if (Peek() == '[') return Refused("a class inside a class");
    GDF_ASSIGN_OR_RETURN(const Item last, ReadItem());
    if (last.is_set) return Refused("a set as the end of a range");
    if (last.code_point < item.code_point) return Malformed("range whose end is before its begin");
    if (caseless_ && last.code_point >= 0x80) {
      return Refused("a character beyond ASCII without regard to case");
    }
    absl::StrAppend(members, "-", Quote(last.code_point));
    return absl::OkStatus();
  }

  // A literal character or an escape, inside or outside of a class.
  absl::StatusOr<Item> ReadItem() {
    Item item;
    if (!Accept("\\")) {
      item.code_point = NextCodePoint(in_, &pos_);
      return item;
    }
    if (AtEnd()) return Malformed("\\ at the end");
    const char32_t c = NextCodePoint(in_, &pos_);
    switch (c) {
      case 's':
      case 'S':
        return Set(std::string(kSpace), c == 'S');
      case 'w':
      case 'W':
        if (caseless_) return Refused("\\w without regard to case");
        return Set(std::string(kWord), c == 'W');
      case 'd':
        return Set("\\p{Nd}", false);
      case 'D':
        return Set("\\P{Nd}", false);
      case 'p':
      case 'P':
        return Property(c == 'P');
      case 'n':
        return Character('\n');
      case 'r':
        return Character('\r');
      case 't':
        return Character('\t');
      case 'f':
        return Character('\f');
      case 'v':
        return Character('\v');
      case 'a':
        return Character('\a');
      case 'e':
        return Character(0x1b);
      case 'x':
        return Accept("{") ? Hexadecimal(1, 6, true) : Hexadecimal(2, 2, false);
      case 'u':
        return Hexadecimal(4, 4, false);
      default:
        if (c < 0x80 && absl::ascii_isalnum(static_cast<unsigned char>(c))) {
          return Refused(absl::StrCat("\\", std::string(1, static_cast<char>(c))));
        }
        return Character(c);
    }
  }

  static Item Character(char32_t c) {
    Item item;
    item.code_point = c;
    return item;
  }
  static Item Set(std::string members, bool negated) {
    Item item;
    item.is_set = true;
    item.members = std::move(members);
    item.negated = negated;
    return item;
  }

  absl::StatusOr<Item> Property(bool negated) {
    if (caseless_) return Refused("\\p without regard to case");
    if (!Accept("{")) return Refused("\\p without {");
    if (Accept("^")) negated = !negated;
    const size_t end = in_.find('}', pos_);
    if (end == std::string_view::npos) return Malformed("missing }");
    const std::string_view name = in_.substr(pos_, end - pos_);
    const bool is_script = Contains(kScripts, name);
    if (!is_script && !Contains(kCategories, name)) {
      return Refused(absl::StrCat("the property ", ToAbsl(name)));
    }
    pos_ = end + 1;
    return Set(absl::StrCat(negated ? "\\P{" : "\\p{", is_script ? "sc:" : "", ToAbsl(name), "}"),
               false);
  }

  absl::StatusOr<Item> Hexadecimal(int min_digits, int max_digits, bool braced) {
    char32_t value = 0;
    int digits = 0;
    while (digits < max_digits && !AtEnd() &&
           absl::ascii_isxdigit(static_cast<unsigned char>(Peek()))) {
      const char digit = absl::ascii_tolower(static_cast<unsigned char>(Peek()));
      value = value * 16 + static_cast<char32_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
      ++digits;
      ++pos_;
    }
    if (digits < min_digits || (braced && !Accept("}"))) return Malformed("bad \\x or \\u");
    // Two digits from 80 on are a byte in Oniguruma, not a code point.
    if (!braced && max_digits == 2 && value >= 0x80) return Refused("\\x80 and above");
    if (value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return Malformed("no code point");
    return Character(value);
  }

  const std::string_view in_;
  size_t pos_ = 0;
  std::string out_;
  bool caseless_ = false;
  char last_literal_ = 0;  // of a run of literals, in lower case; 0 at its begin
};

}  // namespace

absl::StatusOr<std::string> TranslateOniguruma(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes) {
    return absl::UnimplementedError(absl::StrCat("regular expression of ", pattern.size(),
                                                 " bytes; at most ", kMaxPatternBytes,
                                                 " are supported"));
  }
  GDF_RETURN_IF_ERROR(CheckUtf8(pattern));
  return Translator(pattern).Run();
}

}  // namespace gdf::data
