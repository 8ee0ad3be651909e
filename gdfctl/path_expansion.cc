#include "gdfctl/path_expansion.h"

#include <fnmatch.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace gdf::ctl {
namespace {

constexpr int kMaxDepth = 32;          // of folders; a link to a folder above would never end
constexpr size_t kMaxFiles = 100'000;  // of a manifest

bool IsGlob(const std::string& path) { return path.find_first_of("*?[") != std::string::npos; }

absl::Status TooMany(const std::string& path) {
  return absl::InvalidArgumentError(absl::StrCat(path, " stands for more than ", kMaxFiles, " files"));
}

absl::Status AddTree(FileSystem& files, const std::string& folder, int depth, std::vector<LocalFile>* out) {
  if (depth > kMaxDepth) {
    return absl::InvalidArgumentError(absl::StrCat(folder, " is more than ", kMaxDepth, " folders deep"));
  }
  GDF_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(folder));
  for (const std::string& name : names) {
    if (name.empty() || name.front() == '.') continue;
    const std::string path = JoinPath(folder, name);
    GDF_ASSIGN_OR_RETURN(const FileInfo info, files.Stat(path));
    if (info.is_directory) {
      GDF_RETURN_IF_ERROR(AddTree(files, path, depth + 1, out));
    } else {
      out->push_back({path, info.size});
      if (out->size() > kMaxFiles) return TooMany(folder);
    }
  }
  return absl::OkStatus();
}

// All paths that match `pattern`, whose parts before `done` are matched already.
absl::Status MatchParts(FileSystem& files, const std::string& done, const std::string& rest,
                        std::vector<std::string>* out) {
  const size_t slash = rest.find('/');
  const std::string part = rest.substr(0, slash);
  const bool last = slash == std::string::npos;
  const std::string after = last ? "" : rest.substr(slash + 1);
  std::vector<std::string> names = {part};
  if (IsGlob(part)) {
    absl::StatusOr<std::vector<std::string>> listed = files.List(done.empty() ? "." : done);
    if (!listed.ok()) return absl::OkStatus();  // no folder, no match
    names.clear();
    for (const std::string& name : *listed) {
      if (fnmatch(part.c_str(), name.c_str(), FNM_PERIOD | FNM_NOESCAPE) == 0) names.push_back(name);
    }
  }
  for (const std::string& name : names) {
    const std::string path = !rest.empty() && rest.front() == '/' && done.empty() && name.empty() ? "/" : JoinPath(done, name);
    if (!last) {
      GDF_RETURN_IF_ERROR(MatchParts(files, path, after, out));
    } else if (files.Exists(path)) {
      out->push_back(path);
      if (out->size() > kMaxFiles) return TooMany(path);
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string JoinPath(const std::string& folder, const std::string& path) {
  if (folder.empty() || (!path.empty() && path.front() == '/')) return path;
  if (path.empty()) return folder;
  return folder.back() == '/' ? folder + path : folder + "/" + path;
}

std::string BaseName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string FolderName(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return "";
  return slash == 0 ? "/" : path.substr(0, slash);
}

absl::StatusOr<std::vector<LocalFile>> ExpandPath(FileSystem& files, const std::string& path) {
  std::vector<std::string> matches = {path};
  if (!files.Exists(path) && IsGlob(path)) {  // a file may have a star in its name
    matches.clear();
    GDF_RETURN_IF_ERROR(MatchParts(files, "", path, &matches));
    if (matches.empty()) return absl::NotFoundError(absl::StrCat("nothing matches ", path));
  }
  std::vector<LocalFile> out;
  for (const std::string& match : matches) {
    GDF_ASSIGN_OR_RETURN(const FileInfo info, files.Stat(match));
    if (info.is_directory) {
      GDF_RETURN_IF_ERROR(AddTree(files, match, 0, &out));
    } else {
      out.push_back({match, info.size});
    }
  }
  if (out.empty()) return absl::NotFoundError(absl::StrCat("no file below ", path));
  std::sort(out.begin(), out.end(), [](const LocalFile& a, const LocalFile& b) { return a.path < b.path; });
  return out;
}

}  // namespace gdf::ctl
