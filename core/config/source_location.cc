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

SourceLocation Problems::AddOrigin(std::string_view name) {
  origins_.emplace_back(name);
  return {.line = 0, .column = 0, .origin = static_cast<int>(origins_.size()) - 1};
}

std::vector<Problems::Problem> Problems::Sorted() const {
  std::vector<Problem> sorted = problems_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Problem& a, const Problem& b) { return a.at < b.at; });
  return sorted;
}

absl::Status Problems::ToStatus() const {
  if (problems_.empty()) return absl::OkStatus();
  const std::vector<Problem> sorted = Sorted();
  std::string text;
  for (size_t i = 0; i < std::min(sorted.size(), kMaxShown); ++i) {
    absl::StrAppendFormat(&text, "%s%s: %s", i == 0 ? "" : "\n",
                          FormatLocation(OriginOf(sorted[i].at), sorted[i].at),
                          sorted[i].message);
  }
  if (sorted.size() > kMaxShown) {
    absl::StrAppendFormat(&text, "\n%s: and %u more", origins_[0], sorted.size() - kMaxShown);
  }
  return absl::InvalidArgumentError(text);
}

}  // namespace gdf::config
