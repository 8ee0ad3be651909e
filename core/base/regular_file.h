// The one way in which files named from outside, or lying where others could have put something, are opened.
#ifndef GDF_CORE_BASE_REGULAR_FILE_H_
#define GDF_CORE_BASE_REGULAR_FILE_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"

namespace gdf {

// open(2) with `flags` and, where they create, `mode`; closed on exec. Never waits for the other end of a pipe or for a
// device: kInvalidArgument unless `path` is a regular file, or with O_NOFOLLOW a symbolic link. Otherwise as
// ErrnoToStatus. The caller closes it.
absl::StatusOr<int> OpenRegularFile(const std::string& path, int flags, mode_t mode = 0600);

}  // namespace gdf

#endif  // GDF_CORE_BASE_REGULAR_FILE_H_
