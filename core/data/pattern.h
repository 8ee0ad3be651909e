// The "pattern" of a Split or Replace: a literal string or a regular expression.
#ifndef GDF_CORE_DATA_PATTERN_H_
#define GDF_CORE_DATA_PATTERN_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/data/json_fields.h"
#include "core/data/regex.h"

namespace gdf::data {

// Immutable.
class Pattern {
 public:
  // From the field "pattern" of `owner`: {"String": s} or {"Regex": r}. An empty string is refused.
  static absl::StatusOr<Pattern> Parse(const JsonObject& owner);

  static Pattern FromRegex(Regex regex) { return Pattern(std::move(regex), ""); }

  // Every match from left to right, as of Regex::ForEachMatch.
  absl::Status ForEachMatch(std::string_view text,
                            absl::FunctionRef<void(size_t begin, size_t end)> on_match) const;

 private:
  Pattern(std::optional<Regex> regex, std::string literal)
      : regex_(std::move(regex)), literal_(std::move(literal)) {}

  std::optional<Regex> regex_;
  std::string literal_;  // where there is no regex_
};

}  // namespace gdf::data

#endif  // GDF_CORE_DATA_PATTERN_H_
