// Lines at the bottom of a terminal that are drawn over themselves.
#ifndef GDF_GDFCTL_LIVE_AREA_H_
#define GDF_GDFCTL_LIVE_AREA_H_

#include <ostream>
#include <string>
#include <vector>

namespace gdf::ctl {

// One thread. Each line must fit into the terminal's width.
class LiveArea {
 public:
  explicit LiveArea(std::ostream& out) : out_(out) {}
  // Replaces what was drawn before; the cursor ends below the last line.
  void Draw(const std::vector<std::string>& lines);
  // Takes the lines away, so that ordinary output can follow in their place.
  void Clear() { Draw({}); }

 private:
  std::ostream& out_;
  size_t drawn_ = 0;
};

}  // namespace gdf::ctl

#endif  // GDF_GDFCTL_LIVE_AREA_H_
