// Columns of text under headings.
#ifndef GDF_GDFCTL_RENDER_TABLE_H_
#define GDF_GDFCTL_RENDER_TABLE_H_

#include <string>
#include <utility>
#include <vector>

#include "gdfctl/render/text.h"

namespace gdf::ctl {

struct Table {
  struct Column {
    std::string heading;
    bool right = false;  // aligned, for numbers
  };
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // a cell for each column
};

// Lines that end with a newline. Columns that do not fit beside the ones before go to a further, indented line of their
// row; only a cell wider than a whole line is cut. Without style.wrap a row is one line, and whole. Columns that
// are empty in every row are left out.
std::string RenderTable(const Table& table, const Style& style);

// "name   value" lines; a value of several lines is indented under its first.
std::string RenderFields(const std::vector<std::pair<std::string, std::string>>& fields, const Style& style);

}  // namespace gdf::ctl

#endif  // GDF_GDFCTL_RENDER_TABLE_H_
