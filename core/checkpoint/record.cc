#include "core/checkpoint/record.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "core/base/encoding.h"
#include "core/base/status_macros.h"

namespace gdf::checkpoint {
namespace {

constexpr char kMagic[] = "GDFREC2\n";  // 8 bytes without the terminator
constexpr size_t kMagicBytes = 8;
constexpr uint64_t kOverheadBytes = kMagicBytes + Digest::kSize;
constexpr uint64_t kPieceBytes = uint64_t{4} << 20;

// Shows the payload to `take`, piece by piece; whether the checksum holds is known at the end.
absl::Status ReadThrough(const ReadableFile& file, const std::string& path,
                         absl::FunctionRef<void(absl::Span<const uint8_t>)> take) {
  if (file.size() < kOverheadBytes) return Damaged(path, "truncated");
  uint8_t magic[kMagicBytes];
  GDF_RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(magic)));
  if (std::memcmp(magic, kMagic, kMagicBytes) != 0) return Damaged(path, "not a record of this version");
  const uint64_t end = file.size() - Digest::kSize;
  std::vector<uint8_t> piece(std::min(kPieceBytes, end - kMagicBytes));
  Sha256 hash;
  for (uint64_t at = kMagicBytes; at < end; at += piece.size()) {
    piece.resize(std::min<uint64_t>(piece.size(), end - at));
    GDF_RETURN_IF_ERROR(file.ReadAt(at, absl::MakeSpan(piece)));
    hash.Update(absl::MakeConstSpan(piece));
    take(piece);
  }
  Digest digest;
  GDF_RETURN_IF_ERROR(file.ReadAt(end, absl::MakeSpan(digest.bytes)));
  return hash.Finish() == digest ? absl::OkStatus() : Damaged(path, "checksum does not match");
}

}  // namespace

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(path, ": ", what));
}

absl::StatusOr<std::unique_ptr<RecordWriter>> RecordWriter::Create(FileSystem& files, const std::string& path) {
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files.Create(path));
  GDF_RETURN_IF_ERROR(file->Append(AsBytes(std::string_view(kMagic, kMagicBytes))));
  return std::unique_ptr<RecordWriter>(new RecordWriter(std::move(file)));
}

absl::Status RecordWriter::Append(absl::Span<const uint8_t> payload) {
  hash_.Update(payload);
  return file_->Append(payload);
}

absl::Status RecordWriter::Commit() {
  GDF_RETURN_IF_ERROR(file_->Append(hash_.Finish().span()));
  return file_->Commit();
}

absl::StatusOr<std::unique_ptr<RecordFile>> RecordFile::Open(FileSystem& files, const std::string& path) {
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files.OpenForRead(path));
  GDF_RETURN_IF_ERROR(ReadThrough(*file, path, [](absl::Span<const uint8_t>) {}));
  return std::unique_ptr<RecordFile>(new RecordFile(std::move(file)));
}

uint64_t RecordFile::size() const { return file_->size() - kOverheadBytes; }

absl::Status RecordFile::ReadAt(uint64_t offset, absl::Span<uint8_t> out) const {
  return file_->ReadAt(kMagicBytes + offset, out);
}

absl::Status WriteRecord(FileSystem& files, const std::string& path, absl::Span<const uint8_t> payload) {
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<RecordWriter> record, RecordWriter::Create(files, path));
  GDF_RETURN_IF_ERROR(record->Append(payload));
  return record->Commit();
}

absl::StatusOr<Buffer> ReadRecord(FileSystem& files, const std::string& path, uint64_t max_bytes) {
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files.OpenForRead(path));
  if (file->size() > kOverheadBytes + max_bytes) return Damaged(path, "larger than expected");
  std::vector<uint8_t> payload;
  GDF_RETURN_IF_ERROR(ReadThrough(*file, path, [&](absl::Span<const uint8_t> piece) {
    payload.insert(payload.end(), piece.begin(), piece.end());
  }));
  return Buffer(std::move(payload));
}

}  // namespace gdf::checkpoint
