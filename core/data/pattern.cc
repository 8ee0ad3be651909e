#include "core/data/pattern.h"

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace gdf::data {

absl::StatusOr<Pattern> Pattern::Parse(const JsonObject& owner) {
  GDF_ASSIGN_OR_RETURN(const JsonObject json, owner.Object("pattern"));
  GDF_RETURN_IF_ERROR(json.OnlyFields({"String", "Regex"}));
  if (json.Find("Regex") != nullptr) {
    GDF_ASSIGN_OR_RETURN(const std::string source, json.String("Regex"));
    absl::StatusOr<Regex> regex = Regex::Compile(source);
    if (!regex.ok()) return Annotate(regex.status(), json.name());
    return FromRegex(*std::move(regex));
  }
  GDF_ASSIGN_OR_RETURN(std::string literal, json.String("String"));
  if (literal.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(json.name(), " is an empty string"));
  }
  return Pattern(std::nullopt, std::move(literal));
}

absl::Status Pattern::ForEachMatch(
    std::string_view text, absl::FunctionRef<void(size_t begin, size_t end)> on_match) const {
  if (regex_) return regex_->ForEachMatch(text, on_match);
  for (size_t at = text.find(literal_); at != std::string_view::npos;
       at = text.find(literal_, at + literal_.size())) {
    on_match(at, at + literal_.size());
  }
  return absl::OkStatus();
}

}  // namespace gdf::data
