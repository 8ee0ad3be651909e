// A file system in front of another one that fails when told to: full disks, and the crash between two writes.
#ifndef GDF_TESTS_SUPPORT_FAULTY_FILES_H_
#define GDF_TESTS_SUPPORT_FAULTY_FILES_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/file_system.h"

namespace gdf {

// `before` is asked before every change ("append", "commit", "remove", "rename", "folder"); when it is not OK the
// change does not happen and the caller gets that status.
class FaultyFiles final : public FileSystem {
 public:
  using Before = std::function<absl::Status(std::string_view change, const std::string& path)>;

  explicit FaultyFiles(FileSystem& inner) : inner_(inner) {}
  void set_before(Before before) { before_ = std::move(before); }

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override {
    return inner_.OpenForRead(path);
  }
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path, uint32_t mode) override {
    auto file = inner_.Create(path, mode);
    if (!file.ok()) return file.status();
    return std::make_unique<File>(*this, path, *std::move(file));
  }
  absl::StatusOr<FileInfo> Stat(const std::string& path) override { return inner_.Stat(path); }
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override { return inner_.List(folder); }
  absl::Status MakeFolders(const std::string& path, uint32_t mode) override {
    const absl::Status ask = Ask("folder", path);
    return ask.ok() ? inner_.MakeFolders(path, mode) : ask;
  }
  absl::Status Remove(const std::string& path) override {
    const absl::Status ask = Ask("remove", path);
    return ask.ok() ? inner_.Remove(path) : ask;
  }
  absl::Status SyncFolder(const std::string& folder) override { return inner_.SyncFolder(folder); }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    const absl::Status ask = Ask("rename", to);
    return ask.ok() ? inner_.Rename(from, to) : ask;
  }

 private:
  class File final : public WritableFile {
   public:
    File(FaultyFiles& files, std::string path, std::unique_ptr<WritableFile> inner)
        : files_(files), path_(std::move(path)), inner_(std::move(inner)) {}
    absl::Status Append(absl::Span<const uint8_t> data) override {
      const absl::Status ask = files_.Ask("append", path_);
      return ask.ok() ? inner_->Append(data) : ask;
    }
    absl::Status Commit() override {
      const absl::Status ask = files_.Ask("commit", path_);
      return ask.ok() ? inner_->Commit() : ask;
    }

   private:
    FaultyFiles& files_;
    const std::string path_;
    std::unique_ptr<WritableFile> inner_;
  };
  absl::Status Ask(std::string_view change, const std::string& path) {
    return before_ ? before_(change, path) : absl::OkStatus();
  }

  FileSystem& inner_;
  Before before_;
};

}  // namespace gdf

#endif  // GDF_TESTS_SUPPORT_FAULTY_FILES_H_
