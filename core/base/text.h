// Bridges the two string_view types (the packaged abseil has its own), and texts for people.
#ifndef GDF_CORE_BASE_TEXT_H_
#define GDF_CORE_BASE_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gdf {

inline absl::string_view ToAbsl(std::string_view s) { return {s.data(), s.size()}; }
inline std::string_view ToStd(absl::string_view s) { return {s.data(), s.size()}; }

// "512 B", "1.5 KiB", "2.0 GiB".
std::string HumanBytes(uint64_t bytes);
// "350 ms", "12 s", "4 min 10 s", "3 h 5 min", "2 d 4 h".
std::string HumanDuration(absl::Duration duration);
// "1 node", "2 nodes".
std::string Counted(uint64_t count, std::string_view noun);

}  // namespace gdf

#endif  // GDF_CORE_BASE_TEXT_H_
