#include "gdfctl/render/table.h"

#include <algorithm>

namespace gdf::ctl {
namespace {

constexpr int kGap = 2;

std::string RenderLine(const Table& table, const std::vector<int>& widths, const std::vector<std::string>& cells,
                       const Style& style) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    const bool last = i + 1 == cells.size();
    if (table.columns[i].right) {
      line += PadLeft(cells[i], widths[i]);
    } else {
      line += last ? cells[i] : PadRight(cells[i], widths[i]);
    }
    if (!last) line.append(kGap, ' ');
  }
  return Truncate(line, style.width, style);
}

}  // namespace

std::string RenderTable(const Table& table, const Style& style) {
  std::vector<int> widths;
  std::vector<std::string> headings;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    int width = Columns(table.columns[i].heading);
    for (const std::vector<std::string>& row : table.rows) width = std::max(width, Columns(row[i]));
    widths.push_back(width);
    headings.push_back(table.columns[i].heading);
  }
  std::string out = Paint(style, Color::kBold, RenderLine(table, widths, headings, style)) + "\n";
  for (const std::vector<std::string>& row : table.rows) out += RenderLine(table, widths, row, style) + "\n";
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
