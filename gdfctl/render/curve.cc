#include "gdfctl/render/curve.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gdf::ctl {
namespace {

constexpr int kLabelColumns = 8;
constexpr int kMinPlotColumns = 10;

using Points = std::vector<std::pair<double, double>>;

struct Range {
  double low = 0;
  double high = 1;

  void Include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // Place of `value` on a scale of 0 to `steps` - 1.
  int Place(double value, int steps) const {
    const double share = high > low ? (value - low) / (high - low) : 0.5;
    return std::clamp(static_cast<int>(std::lround(share * (steps - 1))), 0, steps - 1);
  }
};

Points Finite(const Points& points) {
  Points finite;
  for (const auto& point : points) {
    if (std::isfinite(point.first) && std::isfinite(point.second)) finite.push_back(point);
  }
  return finite;
}

// Dots on a grid of columns x rows characters.
class Canvas {
 public:
  Canvas(int columns, int rows, bool braille)
      : columns_(columns), rows_(rows), x_dots_(braille ? 2 : 1), y_dots_(braille ? 4 : 1), cells_(columns * rows) {}

  int width() const { return columns_ * x_dots_; }
  int height() const { return rows_ * y_dots_; }

  // y counts from the bottom.
  void Dot(int x, int y) {
    static constexpr uint8_t kBits[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    const int from_top = height() - 1 - y;
    cells_[from_top / y_dots_ * columns_ + x / x_dots_] |=
        y_dots_ == 1 ? 1 : kBits[from_top % y_dots_][x % x_dots_];
  }
  // Bresenham's line.
  void Line(int x0, int y0, int x1, int y1) {
    const int dx = std::abs(x1 - x0), sx = x0 < x1 ? 1 : -1;
    const int dy = -std::abs(y1 - y0), sy = y0 < y1 ? 1 : -1;
    for (int error = dx + dy;;) {
      Dot(x0, y0);
      if (x0 == x1 && y0 == y1) return;
      const int twice = 2 * error;
      if (twice >= dy) {
        error += dy;
        x0 += sx;
      }
      if (twice <= dx) {
        error += dx;
        y0 += sy;
      }
    }
  }
  void Mark(int x, int y) { marks_.emplace_back(x / x_dots_, rows_ - 1 - y / y_dots_); }

  std::string Row(int row, const Style& style) const {
    std::string text;
    for (int column = 0; column < columns_; ++column) {
      const uint8_t cell = cells_[row * columns_ + column];
      const bool marked = std::find(marks_.begin(), marks_.end(), std::pair(column, row)) != marks_.end();
      if (marked) {
        text += Paint(style, Color::kYellow, "o");
      } else if (cell == 0) {
        text += ' ';
      } else if (y_dots_ == 1) {
        text += '*';
      } else {
        // U+2800 + cell in UTF-8.
        const char utf8[] = {'\xE2', static_cast<char>(0xA0 | cell >> 6), static_cast<char>(0x80 | (cell & 0x3F))};
        text += Paint(style, Color::kCyan, std::string_view(utf8, 3));
      }
    }
    while (!text.empty() && text.back() == ' ') text.pop_back();
    return text;
  }

 private:
  const int columns_, rows_, x_dots_, y_dots_;
  std::vector<uint8_t> cells_;
  std::vector<std::pair<int, int>> marks_;
};

std::string Legend(const Curve& curve, const Style& style) {
  std::string text(kLabelColumns, ' ');
  if (!curve.line.empty()) {
    absl::StrAppend(&text, "  ", Paint(style, Color::kCyan, style.unicode ? "⠒⠒" : "**"), " ", curve.line_name);
  }
  if (!curve.points.empty()) absl::StrAppend(&text, "  ", Paint(style, Color::kYellow, "o"), " ", curve.points_name);
  return text + "\n";
}

std::string XAxis(const Curve& curve, const Range& x, int columns, const Style& style) {
  std::string axis = std::string(kLabelColumns, ' ') + (style.unicode ? "└" : "+");
  for (int i = 0; i < columns; ++i) axis += style.unicode ? "─" : "-";
  const std::string low = absl::StrFormat("%.0f", x.low);
  const std::string high = absl::StrFormat("%.0f", x.high);
  const int gap = columns - Columns(low) - Columns(high);
  std::string middle = Columns(curve.x_name) + 2 <= gap ? curve.x_name : "";
  const int left = (gap - Columns(middle)) / 2;
  middle = std::string(std::max(left, 0), ' ') + middle;
  return absl::StrCat(axis, "\n", std::string(kLabelColumns + 1, ' '), low, PadRight(middle, gap), high, "\n");
}

}  // namespace

std::string RenderCurve(const Curve& curve, const Style& style) {
  const Points line = Finite(curve.line);
  const Points points = Finite(curve.points);
  if (line.empty() && points.empty()) return "";
  const auto& first = line.empty() ? points.front() : line.front();
  Range x{first.first, first.first}, y{first.second, first.second};
  for (const Points* all : {&line, &points}) {
    for (const auto& [px, py] : *all) {
      x.Include(px);
      y.Include(py);
    }
  }
  const int columns = std::max(style.width - kLabelColumns - 1, kMinPlotColumns);
  Canvas canvas(columns, curve.rows, style.unicode);
  for (size_t i = 0; i < line.size(); ++i) {
    const auto& from = line[i == 0 ? 0 : i - 1];
    canvas.Line(x.Place(from.first, canvas.width()), y.Place(from.second, canvas.height()),
                x.Place(line[i].first, canvas.width()), y.Place(line[i].second, canvas.height()));
  }
  for (const auto& [px, py] : points) canvas.Mark(x.Place(px, canvas.width()), y.Place(py, canvas.height()));

  std::string out = Legend(curve, style);
  for (int row = 0; row < curve.rows; ++row) {
    const bool labelled = row == 0 || row == curve.rows - 1 || row == curve.rows / 2;
    const double value = y.high - (y.high - y.low) * row / std::max(curve.rows - 1, 1);
    const std::string label = labelled ? absl::StrFormat("%.3g ", value) : "";
    absl::StrAppend(&out, PadLeft(label, kLabelColumns), labelled ? (style.unicode ? "┤" : "+") : (style.unicode ? "│" : "|"),
                    canvas.Row(row, style), "\n");
  }
  return out + XAxis(curve, x, columns, style);
}

}  // namespace gdf::ctl
