#include "core/base/file_system.h"

#include <errno.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/encoding.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace gdf {

absl::Status ErrnoToStatus(int errno_value, std::string_view what, std::string_view path) {
  const std::string message =
      absl::StrCat("cannot ", ToAbsl(what), " ", ToAbsl(path), ": ", std::strerror(errno_value));
  switch (errno_value) {
    case ENOENT:
    case ENOTDIR: return absl::NotFoundError(message);
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM: return absl::ResourceExhaustedError(message);
    case EACCES:
    case EPERM:
    case EROFS: return absl::PermissionDeniedError(message);
    case EEXIST: return absl::AlreadyExistsError(message);
    case EIO: return absl::DataLossError(message);
    default: return absl::UnavailableError(message);
  }
}

absl::StatusOr<std::string> FileSystem::Read(const std::string& path, uint64_t max_bytes) {
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, OpenForRead(path));
  if (file->size() > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(path, " has ", file->size(), " bytes, at most ", max_bytes, " are accepted"));
  }
  std::string data(file->size(), '\0');
  GDF_RETURN_IF_ERROR(
      file->ReadAt(0, absl::MakeSpan(reinterpret_cast<uint8_t*>(data.data()), data.size())));
  return data;
}

absl::Status FileSystem::WriteAtomic(const std::string& path, std::string_view data, uint32_t mode) {
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, Create(path, mode));
  GDF_RETURN_IF_ERROR(file->Append(AsBytes(data)));
  return file->Commit();
}

absl::Status FileSystem::RemoveTree(const std::string& path) {
  absl::StatusOr<FileInfo> info = Stat(path);
  if (absl::IsNotFound(info.status())) return absl::OkStatus();
  GDF_RETURN_IF_ERROR(info.status());
  if (info->is_directory) {
    GDF_ASSIGN_OR_RETURN(std::vector<std::string> names, List(path));
    for (const std::string& name : names) GDF_RETURN_IF_ERROR(RemoveTree(absl::StrCat(path, "/", name)));
  }
  // A folder in memory is gone with its last file.
  const absl::Status removed = Remove(path);
  return absl::IsNotFound(removed) ? absl::OkStatus() : removed;
}

}  // namespace gdf
