// A file with a checksum over its payload (docs/formats/checkpoint.md), written and read in pieces, so that a payload
// passes through that is larger than the memory to spare.
#ifndef GDF_CORE_CHECKPOINT_RECORD_H_
#define GDF_CORE_CHECKPOINT_RECORD_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "core/base/buffer.h"
#include "core/base/file_system.h"
#include "core/base/hash.h"

namespace gdf::checkpoint {

// kDataLoss for a file of a checkpoint, saying what is wrong with it.
absl::Status Damaged(const std::string& path, absl::string_view what);

// One thread at a time. Nothing is at the path before Commit.
class RecordWriter {
 public:
  static absl::StatusOr<std::unique_ptr<RecordWriter>> Create(FileSystem& files, const std::string& path);
  // kResourceExhausted when the disk is full.
  absl::Status Append(absl::Span<const uint8_t> payload);
  absl::Status Commit();  // once

 private:
  explicit RecordWriter(std::unique_ptr<WritableFile> file) : file_(std::move(file)) {}
  const std::unique_ptr<WritableFile> file_;
  Sha256 hash_;
};

// A payload that was whole when its file was opened. Thread-safe.
class RecordFile {
 public:
  // Reads all of it once. kDataLoss, naming the path, when it is no record or its checksum does not hold.
  static absl::StatusOr<std::unique_ptr<RecordFile>> Open(FileSystem& files, const std::string& path);
  uint64_t size() const;  // of the payload
  absl::Status ReadAt(uint64_t offset, absl::Span<uint8_t> out) const;

 private:
  explicit RecordFile(std::unique_ptr<ReadableFile> file) : file_(std::move(file)) {}
  const std::unique_ptr<ReadableFile> file_;
};

// The same for payloads that fit into memory.
absl::Status WriteRecord(FileSystem& files, const std::string& path, absl::Span<const uint8_t> payload);
// kDataLoss also when it is longer than `max_bytes`.
absl::StatusOr<Buffer> ReadRecord(FileSystem& files, const std::string& path, uint64_t max_bytes);

}  // namespace gdf::checkpoint

#endif  // GDF_CORE_CHECKPOINT_RECORD_H_
