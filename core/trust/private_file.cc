#include "core/trust/private_file.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace gdf::trust {

absl::Status CheckPrivate(FileSystem& files, const std::string& path, std::string_view what, OthersMay others) {
  GDF_ASSIGN_OR_RETURN(const FileInfo info, files.Stat(path));
  const std::string named = absl::StrCat(ToAbsl(what), " ", path);
  if (!info.own) {
    return absl::PermissionDeniedError(
        absl::StrCat(named, " belongs to another user. If it is this node's, run: chown $(id -u) ", path));
  }
  if ((info.mode & (others == OthersMay::kRead ? 022 : 077)) == 0) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      named, " has mode ", absl::StrFormat("%04o", info.mode), ", which lets others ",
      others == OthersMay::kRead ? "change it" : "at it", ". Run: chmod ", info.is_directory ? "700 " : "600 ", path));
}

}  // namespace gdf::trust
