#include "gdfctl/render/bar.h"

#include <algorithm>
#include <cmath>

namespace gdf::ctl {

std::string RenderBar(double share, int columns, const Style& style) {
  static constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  share = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0.0;
  columns = std::max(columns, 0);
  const int parts = style.unicode ? 8 : 1;
  const int filled = static_cast<int>(share * columns * parts);
  std::string full;
  std::string rest;
  for (int i = 0; i < filled / parts; ++i) full += style.unicode ? "█" : "#";
  full += kEighths[filled % parts];
  for (int i = (filled + parts - 1) / parts; i < columns; ++i) rest += style.unicode ? "░" : "-";
  return Paint(style, Color::kGreen, full) + Paint(style, Color::kDim, rest);
}

}  // namespace gdf::ctl
