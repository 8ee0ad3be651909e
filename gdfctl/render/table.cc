#include "gdfctl/render/table.h"

#include <algorithm>
#include <limits>

namespace gdf::ctl {
namespace {

constexpr int kGap = 2;
constexpr int kIndent = 4;  // of a row's further lines

int WidthOf(const Table& table, size_t column) {
  int width = Columns(table.columns[column].heading);
  for (const std::vector<std::string>& row : table.rows) width = std::max(width, Columns(row[column]));
  return width;
}

bool IsEmpty(const Table& table, size_t column) {
  return !table.rows.empty() && std::all_of(table.rows.begin(), table.rows.end(),
                                            [&](const std::vector<std::string>& row) { return row[column].empty(); });
}

// The columns of each line, as many to one as fit.
std::vector<std::vector<size_t>> Layout(const Table& table, const std::vector<int>& widths, int columns) {
  std::vector<std::vector<size_t>> lines(1);
  int used = 0;
  for (size_t i = 0; i < widths.size(); ++i) {
    if (IsEmpty(table, i)) continue;
    if (!lines.back().empty() && used + kGap + widths[i] > columns) {
      lines.emplace_back();
      used = kIndent - kGap;
    }
    used += widths[i] + (lines.size() == 1 && lines.back().empty() ? 0 : kGap);
    lines.back().push_back(i);
  }
  return lines;
}

std::string RenderLine(const Table& table, const std::vector<int>& widths, const std::vector<size_t>& line,
                       const std::vector<std::string>& cells) {
  std::string out;
  for (const size_t i : line) {
    if (i != line.front()) out.append(kGap, ' ');
    if (table.columns[i].right) {
      out += PadLeft(cells[i], widths[i]);
    } else {
      out += i == line.back() ? cells[i] : PadRight(cells[i], widths[i]);
    }
  }
  return out;
}

}  // namespace

std::string RenderTable(const Table& table, const Style& style) {
  std::vector<int> widths;
  std::vector<std::string> headings;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    widths.push_back(WidthOf(table, i));
    headings.push_back(table.columns[i].heading);
  }
  const int width = style.wrap ? style.width : std::numeric_limits<int>::max();
  const std::vector<std::vector<size_t>> lines = Layout(table, widths, width);
  std::string out;
  const auto add = [&](const std::vector<std::string>& cells, Color color) {
    for (const std::vector<size_t>& line : lines) {
      const bool further = &line != &lines.front();
      const std::string text = RenderLine(table, widths, line, cells);
      if (further && text.find_first_not_of(' ') == std::string::npos) continue;
      const int indent = further ? kIndent : 0;
      out += std::string(indent, ' ') + Paint(style, color, Truncate(text, width - indent, style)) + "\n";
    }
  };
  add(headings, Color::kBold);
  for (const std::vector<std::string>& row : table.rows) add(row, Color::kNone);
  return out;
}

std::string RenderFields(const std::vector<std::pair<std::string, std::string>>& fields, const Style& style) {
  int width = 0;
  for (const auto& [name, value] : fields) width = std::max(width, Columns(name));
  std::string out;
  for (const auto& [name, value] : fields) {
    out += Paint(style, Color::kDim, PadRight(name, width)) + std::string(kGap, ' ');
    for (const char c : value) {
      out += c;
      if (c == '\n') out.append(width + kGap, ' ');
    }
    out += "\n";
  }
  return out;
}

}  // namespace gdf::ctl
