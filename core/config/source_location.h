// Places in a configuration file, and the list of everything that is wrong with it.
#ifndef GDF_CORE_CONFIG_SOURCE_LOCATION_H_
#define GDF_CORE_CONFIG_SOURCE_LOCATION_H_

#include <compare>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace gdf::config {

// Where a value stands in its file, counted from 1; 0: not from a file.
struct SourceLocation {
  int line = 0;
  int column = 0;
  int origin = 0;  // 0: the file; else what Problems::AddOrigin returned, without line and column

  auto operator<=>(const SourceLocation&) const = default;
};

// "job.yaml:12:5", or only the name when the location is unknown.
std::string FormatLocation(std::string_view filename, SourceLocation at);

// Collects the problems of one file, so that a user sees all of them at once.
class Problems {
 public:
  struct Problem {
    SourceLocation at;
    std::string message;
  };

  explicit Problems(std::string_view filename) : origins_{std::string(filename)} {}

  // Another place that values come from, such as "--set train.steps=400".
  SourceLocation AddOrigin(std::string_view name);
  void Add(SourceLocation at, std::string message);
  bool empty() const { return problems_.empty(); }
  size_t size() const { return problems_.size(); }
  // In the order of the file.
  std::vector<Problem> Sorted() const;
  // The file or other origin that `at` is in.
  const std::string& OriginOf(SourceLocation at) const { return origins_.at(at.origin); }

  // OK when nothing was added; else kInvalidArgument with one line a problem in the order of the
  // file, "job.yaml:12:5: message". After kMaxShown only their number is told.
  absl::Status ToStatus() const;

  static constexpr size_t kMaxShown = 50;

 private:
  std::vector<std::string> origins_;
  std::vector<Problem> problems_;
};

}  // namespace gdf::config

#endif  // GDF_CORE_CONFIG_SOURCE_LOCATION_H_
