#include "gdfctl/render/text.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/name.h"
#include "core/base/text.h"

namespace gdf::ctl {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Length in bytes of the colour sequence ("ESC [ digits m") at `i`; 0: there is none.
size_t SequenceAt(std::string_view text, size_t i) {
  if (text.substr(i, 2) != "\x1b[") return 0;
  const size_t end = text.find('m', i);
  return end == std::string_view::npos ? 0 : end - i + 1;
}

const char* CodeOf(Color color) {
  switch (color) {
    case Color::kNone: return "0";
    case Color::kBold: return "1";
    case Color::kDim: return "2";
    case Color::kRed: return "31";
    case Color::kGreen: return "32";
    case Color::kYellow: return "33";
    case Color::kCyan: return "36";
  }
  return "0";
}

}  // namespace

std::string Paint(const Style& style, Color color, std::string_view text) {
  if (!style.color || color == Color::kNone || text.empty()) return std::string(text);
  return absl::StrCat("\x1b[", CodeOf(color), "m", ToAbsl(text), "\x1b[0m");
}

std::string Printable(std::string_view text) { return SafeText(text, text.size()); }

int Columns(std::string_view text) {
  int columns = 0;
  for (size_t i = 0; i < text.size();) {
    if (const size_t sequence = SequenceAt(text, i)) {
      i += sequence;
      continue;
    }
    columns += !IsContinuation(text[i]);
    ++i;
  }
  return columns;
}

std::string Truncate(std::string_view text, int columns, const Style& style) {
  if (columns <= 0) return "";
  if (Columns(text) <= columns) return std::string(text);
  std::string out;
  int used = 0;
  bool painted = false;
  for (size_t i = 0; i < text.size();) {
    if (const size_t sequence = SequenceAt(text, i)) {
      painted = true;
      out += text.substr(i, sequence);
      i += sequence;
      continue;
    }
    if (!IsContinuation(text[i]) && ++used == columns) break;
    out += text[i++];
  }
  out += style.unicode ? "…" : ".";
  if (painted) out += "\x1b[0m";
  return out;
}

std::string PadRight(std::string text, int columns) {
  const int missing = columns - Columns(text);
  if (missing > 0) text.append(missing, ' ');
  return text;
}

std::string PadLeft(std::string text, int columns) {
  const int missing = columns - Columns(text);
  if (missing > 0) text.insert(0, missing, ' ');
  return text;
}

std::string HumanCount(double value) {
  if (value < 999.5) return absl::StrFormat("%.0f", value);
  static constexpr const char* kUnits[] = {"k", "M", "G", "T"};
  int unit = -1;
  do {
    value /= 1000;
    ++unit;
  } while (value >= 999.95 && unit < 3);
  return absl::StrFormat("%.1f%s", value, kUnits[unit]);
}

std::string FormatLoss(const std::optional<double>& loss) {
  return loss ? absl::StrFormat("%.4f", *loss) : "-";
}

std::string FormatAge(absl::Time at, absl::Time now) {
  if (at == absl::InfinitePast() || at == absl::InfiniteFuture()) return "-";
  return absl::StrCat(HumanDuration(std::max(now - at, absl::ZeroDuration())), " ago");
}

std::string UtcText(absl::Time at) { return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", at, absl::UTCTimeZone()); }

std::string FormatClock(absl::Time at, absl::TimeZone zone) { return absl::FormatTime("%H:%M:%S", at, zone); }

}  // namespace gdf::ctl
