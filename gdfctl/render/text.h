// Texts for a terminal: safe, short and aligned. Pure functions; a character is taken to be one column wide.
#ifndef GDF_GDFCTL_RENDER_TEXT_H_
#define GDF_GDFCTL_RENDER_TEXT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"

namespace gdf::ctl {

// How a stream may be written to.
struct Style {
  bool color = false;
  bool unicode = false;
  int width = 80;     // columns, of what is drawn to fit
  bool wrap = true;   // rows of tables too; off: a row is one line, for programs that read it
};

enum class Color { kNone, kBold, kDim, kRed, kGreen, kYellow, kCyan };

// `text` in that colour, or as it is where the style has none.
std::string Paint(const Style& style, Color color, std::string_view text);

// As SafeText, so that what comes from other machines cannot move the cursor.
std::string Printable(std::string_view text);

// Columns of a text; colour sequences count as none.
int Columns(std::string_view text);
// At most `columns` columns, the last one "…" (or "." without unicode) where something was cut.
std::string Truncate(std::string_view text, int columns, const Style& style);
// Padded with spaces to `columns`.
std::string PadRight(std::string text, int columns);
std::string PadLeft(std::string text, int columns);

std::string HumanCount(double value);                      // "950", "12.3k", "4.5M"
std::string FormatLoss(const std::optional<double>& loss);  // "1.8857", "-"
// "3 min ago" style age; "-" for a time that has not come.
std::string FormatAge(absl::Time at, absl::Time now);
// UTC, RFC 3339, seconds: "2026-01-31T12:00:00Z".
std::string UtcText(absl::Time at);
// Clock time in `zone`: "12:00:00".
std::string FormatClock(absl::Time at, absl::TimeZone zone);

}  // namespace gdf::ctl

#endif  // GDF_GDFCTL_RENDER_TEXT_H_
