#include "core/base/text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gdf {

std::string HumanBytes(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (value >= 1023.95 && unit < 5) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string HumanDuration(absl::Duration duration) {
  if (duration < absl::Seconds(1)) return absl::StrCat(absl::ToInt64Milliseconds(duration), " ms");
  const int64_t s = absl::ToInt64Seconds(duration);
  if (s < 60) return absl::StrCat(s, " s");
  if (s < 3600) return absl::StrCat(s / 60, " min ", s % 60, " s");
  if (s < 86400) return absl::StrCat(s / 3600, " h ", s % 3600 / 60, " min");
  return absl::StrCat(s / 86400, " d ", s % 86400 / 3600, " h");
}

std::string Counted(uint64_t count, std::string_view noun) {
  return absl::StrCat(count, " ", ToAbsl(noun), count == 1 ? "" : "s");
}

}  // namespace gdf
