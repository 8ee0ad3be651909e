// What names and texts from users and peers may look like, so that they are safe in files, logs and terminals.
#ifndef GDF_CORE_BASE_NAME_H_
#define GDF_CORE_BASE_NAME_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace gdf {

inline constexpr size_t kMaxNameBytes = 63;

// Names of networks, nodes and jobs: [A-Za-z0-9][A-Za-z0-9._-]{0,62}. kInvalidArgument; `what` names the field.
absl::Status CheckName(std::string_view what, std::string_view name);

// Text of at most `max_bytes`: valid UTF-8 (no surrogates, no overlong forms) without control characters
// other than tab and newline. kInvalidArgument; `what` names the field.
absl::Status CheckText(std::string_view what, std::string_view text, size_t max_bytes);

// Any text of valid UTF-8. kInvalidArgument; `what` names the field.
absl::Status CheckUtf8(std::string_view what, std::string_view text);

// `text` as CheckText accepts it: what it would refuse becomes '?', byte by byte, and so do characters that change the
// order in which a line is shown; whole characters are cut off the end. For texts of other programs and machines.
std::string SafeText(std::string_view text, size_t max_bytes);

}  // namespace gdf

#endif  // GDF_CORE_BASE_NAME_H_
