// Paths of job.yaml to files: a file is itself, a folder every file below it, a glob what it matches.
#ifndef GDF_GDFCTL_PATH_EXPANSION_H_
#define GDF_GDFCTL_PATH_EXPANSION_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/file_system.h"

namespace gdf::ctl {

struct LocalFile {
  std::string path;  // as FileSystem takes it
  uint64_t size = 0;
};

// `path` relative to `folder`, unless it is absolute. An empty folder is the current one.
std::string JoinPath(const std::string& folder, const std::string& path);
// What follows the last '/'.
std::string BaseName(const std::string& path);
// What precedes it; empty when there is none.
std::string FolderName(const std::string& path);

// The files of `path`, in byte order of their paths. '*', '?' and [...] match within one part of a path and never a
// leading dot; hidden files of folders are left out too. kNotFound when there is none.
absl::StatusOr<std::vector<LocalFile>> ExpandPath(FileSystem& files, const std::string& path);

}  // namespace gdf::ctl

#endif  // GDF_GDFCTL_PATH_EXPANSION_H_
