// Whether a file or folder of a node's is closed to others, as ssh wants of its own.
#ifndef GDF_CORE_TRUST_PRIVATE_FILE_H_
#define GDF_CORE_TRUST_PRIVATE_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "core/base/file_system.h"

namespace gdf::trust {

enum class OthersMay { kNothing, kRead };

// kPermissionDenied unless `path`, called `what` in the message ("the key file"), belongs to the user this process runs
// as and its mode lets others do no more than `others`; the message has the command that mends it. kNotFound.
absl::Status CheckPrivate(FileSystem& files, const std::string& path, std::string_view what, OthersMay others);

}  // namespace gdf::trust

#endif  // GDF_CORE_TRUST_PRIVATE_FILE_H_
