#include "gdfctl/live_area.h"

namespace gdf::ctl {

void LiveArea::Draw(const std::vector<std::string>& lines) {
  // One write, so that a half drawn state is never seen: up, each line with the rest of it erased, then all below.
  std::string text;
  if (drawn_ > 0) text = "\x1b[" + std::to_string(drawn_) + "A";
  for (const std::string& line : lines) text += line + "\x1b[K\n";
  if (drawn_ > lines.size()) text += "\x1b[J";
  drawn_ = lines.size();
  out_ << text << std::flush;
}

}  // namespace gdf::ctl
