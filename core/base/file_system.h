// Files as the programs need them: whole reads, atomic writes, appends that are synced. Posix for real, in memory for
// tests; the simulator has a disk of its own, which loses what was not synced.
#ifndef GDF_CORE_BASE_FILE_SYSTEM_H_
#define GDF_CORE_BASE_FILE_SYSTEM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gdf {

// An open file for reading at any offset. Thread-safe.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual uint64_t size() const = 0;
  // Fills all of `out` from `offset`. kOutOfRange beyond the end, kDataLoss on an I/O error.
  virtual absl::Status ReadAt(uint64_t offset, absl::Span<uint8_t> out) const = 0;
};

// A new file written in order.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  // kResourceExhausted when the disk is full.
  virtual absl::Status Append(absl::Span<const uint8_t> data) = 0;
  // Data reaches the disk, the file keeps `path`. Nothing is visible under `path` before Commit; a file destroyed
  // without Commit leaves nothing. The order of its steps: atomic_file.h.
  virtual absl::Status Commit() = 0;
};

struct FileInfo {
  uint64_t size = 0;
  bool is_directory = false;
  uint32_t mode = 0;  // permission bits
  bool own = true;    // belongs to the user this process runs as
};

// Thread-safe. Paths are as the operating system takes them. Missing things are kNotFound, a full disk is
// kResourceExhausted, a forbidden one kPermissionDenied; messages name the path.
class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) = 0;
  // Replaces `path` on Commit; kFailedPrecondition where that is no regular file. `mode`: permission bits.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path,
                                                               uint32_t mode = 0600) = 0;
  virtual absl::StatusOr<FileInfo> Stat(const std::string& path) = 0;
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& folder) = 0;  // names, sorted
  virtual absl::Status MakeFolders(const std::string& path, uint32_t mode = 0700) = 0;
  virtual absl::Status Remove(const std::string& path) = 0;             // one file or empty folder
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // The names in `folder` survive a crash as they are now. A process that ended between renaming a file and this has left a
  // name that can be read and be lost: whoever goes by what it finds calls this first.
  virtual absl::Status SyncFolder(const std::string& folder) = 0;

  // The whole file; kResourceExhausted when larger than `max_bytes`.
  absl::StatusOr<std::string> Read(const std::string& path, uint64_t max_bytes = uint64_t{1} << 30);
  absl::Status WriteAtomic(const std::string& path, std::string_view data, uint32_t mode = 0600);
  // `path` and all that is in it. OK when it is not there.
  absl::Status RemoveTree(const std::string& path);
  bool Exists(const std::string& path) { return Stat(path).ok(); }
};

class PosixFileSystem final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path, uint32_t mode) override;
  absl::StatusOr<FileInfo> Stat(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;
  absl::Status MakeFolders(const std::string& path, uint32_t mode) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status SyncFolder(const std::string& folder) override;
};

// Everything in memory; folders are implied by file names. `capacity_bytes` makes the disk full. One thread.
class MemoryFileSystem final : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path, uint32_t mode) override;
  absl::StatusOr<FileInfo> Stat(const std::string& path) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;
  absl::Status MakeFolders(const std::string& path, uint32_t mode) override;
  absl::Status Remove(const std::string& path) override;
  absl::Status Rename(const std::string& from, const std::string& to) override;
  absl::Status SyncFolder(const std::string& folder) override;
  void set_capacity_bytes(uint64_t bytes) { capacity_bytes_ = bytes; }
  uint64_t used_bytes() const;

 private:
  friend class MemoryWritableFile;
  uint64_t capacity_bytes_ = ~uint64_t{0};
  std::map<std::string, std::shared_ptr<const std::string>> files_;
};

// `errno_value` as a Status of the code described above: "cannot open /x: No space left on device".
absl::Status ErrnoToStatus(int errno_value, std::string_view what, std::string_view path);

}  // namespace gdf

#endif  // GDF_CORE_BASE_FILE_SYSTEM_H_
