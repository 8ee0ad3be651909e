// Curves drawn with characters: a line in braille dots (2 x 4 to a character) or, without unicode, in asterisks; and
// separate points over it.
#ifndef GDF_GDFCTL_RENDER_CURVE_H_
#define GDF_GDFCTL_RENDER_CURVE_H_

#include <string>
#include <utility>
#include <vector>

#include "gdfctl/render/text.h"

namespace gdf::ctl {

struct Curve {
  std::vector<std::pair<double, double>> line;    // (x, y), ascending x
  std::vector<std::pair<double, double>> points;  // drawn as "o"
  std::string line_name;
  std::string points_name;
  std::string x_name;
  int rows = 12;  // of the plot itself
};

// Lines that end with a newline, at most style.width columns wide: a legend, the plot with its axis of y, the axis of
// x. Values that are not finite are left out; nothing to draw gives an empty text.
std::string RenderCurve(const Curve& curve, const Style& style);

}  // namespace gdf::ctl

#endif  // GDF_GDFCTL_RENDER_CURVE_H_
