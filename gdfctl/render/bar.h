// A bar that fills from left to right.
#ifndef GDF_GDFCTL_RENDER_BAR_H_
#define GDF_GDFCTL_RENDER_BAR_H_

#include <string>

#include "gdfctl/render/text.h"

namespace gdf::ctl {

// `columns` wide; `share` is clamped to [0, 1]. Unicode: eighths of a block; otherwise '#' and '-'.
std::string RenderBar(double share, int columns, const Style& style);

}  // namespace gdf::ctl

#endif  // GDF_GDFCTL_RENDER_BAR_H_
