#include "tests/sim/sim_disk.h"

#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/atomic_file.h"
#include "core/base/encoding.h"
#include "core/base/status_macros.h"

namespace gdf::sim {
namespace {

class Reading final : public ReadableFile {
 public:
  explicit Reading(std::string data) : data_(std::move(data)) {}
  uint64_t size() const override { return data_.size(); }
  absl::Status ReadAt(uint64_t offset, absl::Span<uint8_t> out) const override {
    if (offset > data_.size() || out.size() > data_.size() - offset) {
      return absl::OutOfRangeError("read beyond the end of the file");
    }
    if (!out.empty()) std::memcpy(out.data(), data_.data() + offset, out.size());
    return absl::OkStatus();
  }

 private:
  const std::string data_;
};

absl::Status Missing(const std::string& path) {
  return absl::NotFoundError(absl::StrCat("cannot open ", path, ": no such file"));
}

std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

}  // namespace

class SimDisk::Writing final : public NewFile {
 public:
  Writing(SimDisk& disk, std::string temporary, std::string path)
      : disk_(disk), temporary_(std::move(temporary)), path_(std::move(path)), file_(std::make_shared<File>()) {
    disk_.Name(temporary_, file_);
  }
  // What fits of it is written.
  absl::Status Write(absl::Span<const uint8_t> data) override {
    GDF_RETURN_IF_ERROR(disk_.Ask("append", temporary_));
    const uint64_t used = disk_.used_bytes();
    const uint64_t room = disk_.capacity_bytes_ > used ? disk_.capacity_bytes_ - used : 0;
    file_->data.append(AsString(data.subspan(0, std::min<uint64_t>(data.size(), room))));
    if (room >= data.size()) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("cannot write ", path_, ": the disk is full"));
  }
  absl::Status Sync() override {
    GDF_RETURN_IF_ERROR(disk_.Ask("sync", temporary_));
    file_->synced = file_->data.size();
    return absl::OkStatus();
  }
  absl::Status Rename() override { return disk_.Rename(temporary_, path_); }
  absl::Status SyncFolder() override {
    GDF_RETURN_IF_ERROR(disk_.Ask("sync folder", path_));
    disk_.NamesAreSynced(FolderOf(path_));
    return absl::OkStatus();
  }
  void Remove() override { disk_.Remove(temporary_).IgnoreError(); }

 private:
  SimDisk& disk_;
  const std::string temporary_;
  const std::string path_;
  const FilePtr file_;
};

void SimDisk::Name(const std::string& path, FilePtr file) {
  FilePtr& now = names_[path];
  unsynced_[path].push_back(std::exchange(now, std::move(file)));
  if (now == nullptr) names_.erase(path);
}

void SimDisk::CutPower() {
  for (const auto& [path, before] : std::exchange(unsynced_, {})) {
    const uint64_t pick = rng_.Below(before.size() + 1);
    if (pick == before.size()) continue;
    names_.erase(path);
    if (before[pick] != nullptr) names_[path] = before[pick];
  }
  for (auto& [path, file] : names_) {
    const size_t length = file->data.size();
    if (file->synced == length) continue;
    auto left = std::make_shared<File>();  // not in place: copies of this disk share it
    left->data = file->data.substr(0, file->synced + rng_.Below(length - file->synced + 1));
    if (rng_.Below(2) == 0) left->data.resize(length);
    left->synced = left->data.size();
    file = std::move(left);
  }
}

absl::StatusOr<std::unique_ptr<ReadableFile>> SimDisk::OpenForRead(const std::string& path) {
  const auto it = names_.find(path);
  if (it == names_.end()) return Missing(path);
  return std::make_unique<Reading>(it->second->data);
}

absl::StatusOr<std::unique_ptr<WritableFile>> SimDisk::Create(const std::string& path, uint32_t) {
  std::string temporary = TemporaryName(path, 1, next_temporary_++);
  GDF_RETURN_IF_ERROR(Ask("create", temporary));
  return ReplaceAtomically(std::make_unique<Writing>(*this, std::move(temporary), path));
}

absl::StatusOr<FileInfo> SimDisk::Stat(const std::string& path) {
  FileInfo info;
  info.mode = 0600;
  if (const auto it = names_.find(path); it != names_.end()) {
    info.size = it->second->data.size();
    return info;
  }
  const std::string prefix = path + "/";
  const auto next = names_.lower_bound(prefix);
  if (next == names_.end() || !absl::StartsWith(next->first, prefix)) return Missing(path);
  info.is_directory = true;
  return info;
}

absl::StatusOr<std::vector<std::string>> SimDisk::List(const std::string& folder) {
  const std::string prefix = folder + "/";
  std::set<std::string> names;
  for (auto it = names_.lower_bound(prefix); it != names_.end() && absl::StartsWith(it->first, prefix); ++it) {
    const std::string rest = it->first.substr(prefix.size());
    names.insert(rest.substr(0, rest.find('/')));
  }
  return std::vector<std::string>(names.begin(), names.end());
}

absl::Status SimDisk::MakeFolders(const std::string& path, uint32_t) { return Ask("folder", path); }

absl::Status SimDisk::Remove(const std::string& path) {
  GDF_RETURN_IF_ERROR(Ask("remove", path));
  if (names_.count(path) == 0) return Missing(path);
  Name(path, nullptr);
  return absl::OkStatus();
}

absl::Status SimDisk::Rename(const std::string& from, const std::string& to) {
  GDF_RETURN_IF_ERROR(Ask("rename", to));
  const auto it = names_.find(from);
  if (it == names_.end()) return Missing(from);
  FilePtr file = it->second;
  Name(to, std::move(file));
  Name(from, nullptr);
  return absl::OkStatus();
}

absl::Status SimDisk::SyncFolder(const std::string& folder) {
  GDF_RETURN_IF_ERROR(Ask("sync folder", folder));
  NamesAreSynced(folder);
  return absl::OkStatus();
}

void SimDisk::NamesAreSynced(const std::string& folder) {
  std::erase_if(unsynced_, [&](const auto& name) { return FolderOf(name.first) == folder; });
}

uint64_t SimDisk::used_bytes() const {
  uint64_t total = 0;
  for (const auto& [path, file] : names_) total += file->data.size();
  return total;
}

}  // namespace gdf::sim
