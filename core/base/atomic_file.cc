#include "core/base/atomic_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace gdf {
namespace {

class AtomicFile final : public WritableFile {
 public:
  explicit AtomicFile(std::unique_ptr<NewFile> file) : file_(std::move(file)) {}
  ~AtomicFile() override {
    if (!renamed_) file_->Remove();
  }
  absl::Status Append(absl::Span<const uint8_t> data) override { return file_->Write(data); }
  absl::Status Commit() override {
    GDF_RETURN_IF_ERROR(file_->Sync());
    GDF_RETURN_IF_ERROR(file_->Rename());
    renamed_ = true;
    return file_->SyncFolder();
  }

 private:
  const std::unique_ptr<NewFile> file_;
  bool renamed_ = false;
};

}  // namespace

std::string TemporaryName(std::string_view path, uint64_t process, uint64_t number) {
  return absl::StrCat(ToAbsl(path), ".tmp-", process, "-", number);
}

std::unique_ptr<WritableFile> ReplaceAtomically(std::unique_ptr<NewFile> file) {
  return std::make_unique<AtomicFile>(std::move(file));
}

}  // namespace gdf
