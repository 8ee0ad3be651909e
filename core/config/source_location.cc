#include "core/config/source_location.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"

namespace gdf::config {

std::string FormatLocation(std::string_view filename, SourceLocation at) {
  if (at.line == 0) return std::string(filename);
  return absl::StrFormat("%s:%d:%d", filename, at.line, at.column);
}

void Problems::Add(SourceLocation at, std::string message) {
  problems_.push_back({at, std::move(message)});
}

absl::Status Problems::ToStatus() const {
  if (problems_.empty()) return absl::OkStatus();
  std::vector<Problem> sorted = problems_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Problem& a, const Problem& b) { return a.at < b.at; });
  std::string text;
  for (size_t i = 0; i < std::min(sorted.size(), kMaxShown); ++i) {
    absl::StrAppendFormat(&text, "%s%s: %s", i == 0 ? "" : "\n",
                          FormatLocation(filename_, sorted[i].at), sorted[i].message);
  }
  if (sorted.size() > kMaxShown) {
    absl::StrAppendFormat(&text, "\n%s: and %u more", filename_, sorted.size() - kMaxShown);
  }
  return absl::InvalidArgumentError(text);
}

}  // namespace gdf::config
