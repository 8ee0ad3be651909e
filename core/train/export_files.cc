#include "core/train/export_files.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/name.h"
#include "core/base/text.h"

namespace gdf::train {

bool IsExportFileName(std::string_view name) {
  return name == kConfigFile || std::find(std::begin(kCompanionFiles), std::end(kCompanionFiles),
                                          name) != std::end(kCompanionFiles);
}

bool IsConfiguration(std::string_view name) {
  return IsExportFileName(name) && absl::EndsWith(ToAbsl(name), ToAbsl(kConfigFile));
}

absl::Status CheckExportFile(std::string_view name, std::string_view contents) {
  const std::string what = absl::StrCat("export: \"", SafeText(name, 64), "\"");
  if (!IsExportFileName(name))
    return absl::InvalidArgumentError(absl::StrCat(what, " is not a file that exports have"));
  if (!IsConfiguration(name)) return absl::OkStatus();
  if (contents.size() > kMaxConfigurationBytes) {
    return absl::InvalidArgumentError(absl::StrCat(what, " has ", contents.size(),
                                                   " bytes, at most ", kMaxConfigurationBytes,
                                                   " are accepted"));
  }
  const nlohmann::json json = nlohmann::json::parse(contents, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return absl::InvalidArgumentError(absl::StrCat(what, " is no JSON object"));
  if (json.contains(kCodeKey)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " names code to load (", kCodeKey, "), which exports never do"));
  }
  return absl::OkStatus();
}

}  // namespace gdf::train
