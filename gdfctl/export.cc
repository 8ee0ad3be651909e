#include "gdfctl/export.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "gdfctl/path_expansion.h"

namespace gdf::ctl {
namespace {

// Writes an export into a folder: none of its files is there before all are whole and none of their places is taken.
class FolderSink final : public control::ExportSink {
 public:
  FolderSink(FileSystem& files, std::string folder) : files_(files), folder_(std::move(folder)) {}

  absl::Status Begin(const std::string& name, uint64_t size) override {
    GDF_RETURN_IF_ERROR(EndFile());
    for (const std::string& part : std::vector<std::string>(absl::StrSplit(name, '/'))) {
      if (part.empty() || part == "." || part == "..") {
        return absl::DataLossError(absl::StrCat("the daemon names a file '", Printable(name), "', which leads out of the folder"));
      }
    }
    const std::string path = JoinPath(folder_, name);
    GDF_RETURN_IF_ERROR(files_.MakeFolders(FolderName(path), 0777));
    GDF_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files_.Create(path, 0666));
    uncommitted_.push_back(std::move(file));
    written_.emplace_back(name, size);
    left_ = size;
    return absl::OkStatus();
  }
  absl::Status Data(absl::Span<const uint8_t> piece) override {
    if (uncommitted_.empty() || piece.size() > left_) return absl::DataLossError("the daemon sends more bytes than it announced");
    left_ -= piece.size();
    return uncommitted_.back()->Append(piece);
  }
  // After the last byte of the last file.
  absl::Status Commit() {
    GDF_RETURN_IF_ERROR(EndFile());
    for (const std::unique_ptr<WritableFile>& file : uncommitted_) GDF_RETURN_IF_ERROR(file->Commit());
    return absl::OkStatus();
  }
  const std::vector<std::pair<std::string, uint64_t>>& written() const { return written_; }

 private:
  absl::Status EndFile() const {
    if (left_ == 0) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat(Printable(written_.back().first), " is cut short by ", left_, " bytes"));
  }

  FileSystem& files_;
  const std::string folder_;
  std::vector<std::unique_ptr<WritableFile>> uncommitted_;
  uint64_t left_ = 0;  // bytes of the last file
  std::vector<std::pair<std::string, uint64_t>> written_;
};

}  // namespace

absl::StatusOr<ExitCode> ExportTo(Session& session, const std::string& job, uint64_t checkpoint, const std::string& folder, bool force) {
  if (folder.empty()) return absl::InvalidArgumentError("DIR '': an export needs the name of a folder");
  FileSystem& files = session.environment().files;
  if (absl::StatusOr<std::vector<std::string>> there = files.List(folder); there.ok() && !there->empty() && !force) {
    return absl::AlreadyExistsError(absl::StrCat(folder, " is not empty; give another folder, or --force to write into it"));
  }
  GDF_ASSIGN_OR_RETURN(control::Client * client, session.client());
  FolderSink sink(files, folder);
  GDF_ASSIGN_OR_RETURN(const uint64_t rounds, client->Export(job, sink, checkpoint));
  GDF_RETURN_IF_ERROR(sink.Commit());
  Json list = Json::array();
  for (const auto& [name, bytes] : sink.written()) {
    list.push_back({{"name", name}, {"bytes", bytes}});
    if (!session.json()) session.Print(absl::StrCat(JoinPath(folder, name), "\n"));
  }
  if (session.json()) session.PrintJson({{"folder", folder}, {"rounds", rounds}, {"files", list}});
  session.Say(absl::StrCat("the parameters after ", Counted(rounds, "round"), "; load them with transformers: ",
                           "AutoModelForCausalLM.from_pretrained(\"", folder, "\")"));
  return kExitOk;
}

}  // namespace gdf::ctl
