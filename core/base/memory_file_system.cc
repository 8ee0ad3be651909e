#include <algorithm>
#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/encoding.h"
#include "core/base/file_system.h"

namespace gdf {
namespace {

class MemoryReadableFile final : public ReadableFile {
 public:
  explicit MemoryReadableFile(std::shared_ptr<const std::string> data) : data_(std::move(data)) {}
  uint64_t size() const override { return data_->size(); }
  absl::Status ReadAt(uint64_t offset, absl::Span<uint8_t> out) const override {
    if (offset > data_->size() || out.size() > data_->size() - offset) {
      return absl::OutOfRangeError("read beyond the end of the file");
    }
    if (!out.empty()) std::memcpy(out.data(), data_->data() + offset, out.size());
    return absl::OkStatus();
  }

 private:
  std::shared_ptr<const std::string> data_;
};

absl::Status Missing(const std::string& path) {
  return absl::NotFoundError(absl::StrCat("cannot open ", path, ": no such file"));
}

}  // namespace

class MemoryWritableFile final : public WritableFile {
 public:
  MemoryWritableFile(MemoryFileSystem& fs, std::string path) : fs_(fs), path_(std::move(path)) {}
  absl::Status Append(absl::Span<const uint8_t> data) override {
    if (fs_.used_bytes() + data_.size() + data.size() > fs_.capacity_bytes_) {
      return absl::ResourceExhaustedError(absl::StrCat("cannot write ", path_, ": the disk is full"));
    }
    data_.append(AsString(data));
    return absl::OkStatus();
  }
  absl::Status Commit() override {
    fs_.files_[path_] = std::make_shared<const std::string>(std::move(data_));
    return absl::OkStatus();
  }

 private:
  MemoryFileSystem& fs_;
  const std::string path_;
  std::string data_;
};

absl::StatusOr<std::unique_ptr<ReadableFile>> MemoryFileSystem::OpenForRead(const std::string& path) {
  const auto it = files_.find(path);
  if (it == files_.end()) return Missing(path);
  return std::make_unique<MemoryReadableFile>(it->second);
}

absl::StatusOr<std::unique_ptr<WritableFile>> MemoryFileSystem::Create(const std::string& path,
                                                                       uint32_t) {
  return std::make_unique<MemoryWritableFile>(*this, path);
}

absl::StatusOr<FileInfo> MemoryFileSystem::Stat(const std::string& path) {
  FileInfo info;
  info.mode = 0600;
  if (const auto it = files_.find(path); it != files_.end()) {
    info.size = it->second->size();
    return info;
  }
  const std::string prefix = path + "/";
  const auto next = files_.lower_bound(prefix);
  if (next == files_.end() || next->first.compare(0, prefix.size(), prefix) != 0) return Missing(path);
  info.is_directory = true;
  return info;
}

absl::StatusOr<std::vector<std::string>> MemoryFileSystem::List(const std::string& folder) {
  const std::string prefix = folder + "/";
  std::set<std::string> names;
  for (auto it = files_.lower_bound(prefix);
       it != files_.end() && it->first.compare(0, prefix.size(), prefix) == 0; ++it) {
    const std::string rest = it->first.substr(prefix.size());
    names.insert(rest.substr(0, rest.find('/')));
  }
  return std::vector<std::string>(names.begin(), names.end());
}

absl::Status MemoryFileSystem::MakeFolders(const std::string&, uint32_t) { return absl::OkStatus(); }

absl::Status MemoryFileSystem::Remove(const std::string& path) {
  return files_.erase(path) == 1 ? absl::OkStatus() : Missing(path);
}

absl::Status MemoryFileSystem::Rename(const std::string& from, const std::string& to) {
  const auto it = files_.find(from);
  if (it == files_.end()) return Missing(from);
  files_[to] = it->second;
  files_.erase(from);
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::SyncFolder(const std::string&) { return absl::OkStatus(); }

uint64_t MemoryFileSystem::used_bytes() const {
  uint64_t total = 0;
  for (const auto& [path, data] : files_) total += data->size();
  return total;
}

}  // namespace gdf
