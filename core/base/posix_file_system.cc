#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "core/base/atomic_file.h"
#include "core/base/file_system.h"
#include "core/base/regular_file.h"
#include "core/base/status_macros.h"

namespace gdf {
namespace {

class PosixReadableFile final : public ReadableFile {
 public:
  PosixReadableFile(int fd, uint64_t size, std::string path)
      : fd_(fd), size_(size), path_(std::move(path)) {}
  ~PosixReadableFile() override { close(fd_); }
  uint64_t size() const override { return size_; }
  absl::Status ReadAt(uint64_t offset, absl::Span<uint8_t> out) const override {
    while (!out.empty()) {
      const ssize_t n = pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoToStatus(errno, "read", path_);
      if (n == 0) {
        return absl::OutOfRangeError(absl::StrCat(path_, " ends at byte ", offset, ", ", out.size(),
                                                  " more were expected"));
      }
      offset += static_cast<uint64_t>(n);
      out.remove_prefix(static_cast<size_t>(n));
    }
    return absl::OkStatus();
  }

 private:
  const int fd_;
  const uint64_t size_;
  const std::string path_;
};

std::string Folder(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

class PosixNewFile final : public NewFile {
 public:
  PosixNewFile(int fd, std::string temporary, std::string path)
      : fd_(fd), temporary_(std::move(temporary)), path_(std::move(path)) {}
  ~PosixNewFile() override { close(fd_); }
  absl::Status Write(absl::Span<const uint8_t> data) override {
    while (!data.empty()) {
      const ssize_t n = write(fd_, data.data(), data.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return ErrnoToStatus(errno, "write", path_);
      data.remove_prefix(static_cast<size_t>(n));
    }
    return absl::OkStatus();
  }
  absl::Status Sync() override {
    return fsync(fd_) == 0 ? absl::OkStatus() : ErrnoToStatus(errno, "sync", path_);
  }
  absl::Status Rename() override {
    return rename(temporary_.c_str(), path_.c_str()) == 0 ? absl::OkStatus() : ErrnoToStatus(errno, "rename", path_);
  }
  absl::Status SyncFolder() override { return PosixFileSystem().SyncFolder(Folder(path_)); }
  void Remove() override { unlink(temporary_.c_str()); }

 private:
  const int fd_;
  const std::string temporary_;
  const std::string path_;
};

}  // namespace

absl::Status PosixFileSystem::SyncFolder(const std::string& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return ErrnoToStatus(errno, "open folder", folder);
  const int rc = fsync(fd);
  const int error = errno;
  close(fd);
  return rc == 0 ? absl::OkStatus() : ErrnoToStatus(error, "sync folder", folder);
}

absl::StatusOr<std::unique_ptr<ReadableFile>> PosixFileSystem::OpenForRead(const std::string& path) {
  GDF_ASSIGN_OR_RETURN(const int fd, OpenRegularFile(path, O_RDONLY));
  struct stat info;
  if (fstat(fd, &info) != 0) {
    const int error = errno;
    close(fd);
    return ErrnoToStatus(error, "stat", path);
  }
  return std::make_unique<PosixReadableFile>(fd, static_cast<uint64_t>(info.st_size), path);
}

absl::StatusOr<std::unique_ptr<WritableFile>> PosixFileSystem::Create(const std::string& path,
                                                                      uint32_t mode) {
  struct stat there;
  if (lstat(path.c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is no regular file and is not replaced"));
  }
  static std::atomic<uint64_t> counter{0};
  const std::string temporary = TemporaryName(path, static_cast<uint64_t>(getpid()), counter.fetch_add(1));
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
  if (fd < 0) return ErrnoToStatus(errno, "create", temporary);
  return ReplaceAtomically(std::make_unique<PosixNewFile>(fd, temporary, path));
}

absl::StatusOr<FileInfo> PosixFileSystem::Stat(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return ErrnoToStatus(errno, "stat", path);
  FileInfo result;
  result.size = static_cast<uint64_t>(info.st_size);
  result.is_directory = S_ISDIR(info.st_mode);
  result.mode = info.st_mode & 07777;
  result.own = info.st_uid == geteuid();
  return result;
}

absl::StatusOr<std::vector<std::string>> PosixFileSystem::List(const std::string& folder) {
  DIR* dir = opendir(folder.c_str());
  if (dir == nullptr) return ErrnoToStatus(errno, "list", folder);
  std::vector<std::string> names;
  while (const dirent* entry = readdir(dir)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  closedir(dir);
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status PosixFileSystem::MakeFolders(const std::string& path, uint32_t mode) {
  for (size_t at = 1; at <= path.size(); ++at) {
    if (at != path.size() && path[at] != '/') continue;
    const std::string part = path.substr(0, at);
    if (mkdir(part.c_str(), mode) != 0 && errno != EEXIST) return ErrnoToStatus(errno, "create", part);
  }
  GDF_ASSIGN_OR_RETURN(FileInfo info, Stat(path));
  if (!info.is_directory) return absl::AlreadyExistsError(absl::StrCat(path, " is not a folder"));
  return absl::OkStatus();
}

absl::Status PosixFileSystem::Remove(const std::string& path) {
  return remove(path.c_str()) == 0 ? absl::OkStatus() : ErrnoToStatus(errno, "remove", path);
}

absl::Status PosixFileSystem::Rename(const std::string& from, const std::string& to) {
  return rename(from.c_str(), to.c_str()) == 0 ? absl::OkStatus() : ErrnoToStatus(errno, "rename", from);
}

}  // namespace gdf
