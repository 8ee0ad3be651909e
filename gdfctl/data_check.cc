// CheckData of job_file.h: what can be said of a dataset by reading it once.
#include <cstring>
#include <vector>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "core/base/encoding.h"
#include "core/base/status_macros.h"
#include "gdfctl/job_file.h"

namespace gdf::ctl {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr size_t kMaxLineBytes = size_t{64} << 20;

// Checks a text in one pass: each lead byte says how many continuations follow and within which bounds the
// first of them lies (RFC 3629, section 4).
class Utf8Checker {
 public:
  // False at the first byte that cannot continue the text.
  bool Feed(unsigned char c) {
    if (pending_ == 0) return Lead(c);
    const bool good = c >= low_ && c <= high_;
    low_ = 0x80;
    high_ = 0xBF;
    --pending_;
    return good;
  }
  bool complete() const { return pending_ == 0; }

 private:
  bool Lead(unsigned char c) {
    if (c < 0x80) return true;
    if (c < 0xC2 || c > 0xF4) return false;
    pending_ = c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;
    if (c == 0xE0) low_ = 0xA0;   // no overlong forms
    if (c == 0xED) high_ = 0x9F;  // no surrogates
    if (c == 0xF0) low_ = 0x90;
    if (c == 0xF4) high_ = 0x8F;  // at most U+10FFFF
    return true;
  }

  int pending_ = 0;
  unsigned char low_ = 0x80, high_ = 0xBF;
};

absl::Status CheckJsonLine(const std::string& line, const std::string& field, const std::string& where) {
  const nlohmann::json value = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!value.is_object()) return absl::InvalidArgumentError(absl::StrCat(where, ": expected a JSON object on each line"));
  const auto found = value.find(field);
  if (found == value.end() || !found->is_string()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": the object has no text in '", field, "' (data.field)"));
  }
  return absl::OkStatus();
}

absl::Status CheckFile(FileSystem& files, const JobInput& input, const config::DataSpec& data) {
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files.OpenForRead(input.path));
  Utf8Checker utf8;
  std::string line;
  uint64_t line_number = 1;
  std::vector<uint8_t> piece(kPieceBytes);
  const bool jsonl = data.format == config::DataFormat::kJsonl;
  const auto end_line = [&]() -> absl::Status {
    if (line.find_first_not_of(" \t\r") == std::string::npos) return absl::OkStatus();
    return CheckJsonLine(line, data.field, absl::StrCat(input.path, ":", line_number));
  };
  for (uint64_t offset = 0; offset < file->size(); offset += piece.size()) {
    piece.resize(std::min<uint64_t>(kPieceBytes, file->size() - offset));
    GDF_RETURN_IF_ERROR(file->ReadAt(offset, absl::MakeSpan(piece)));
    for (size_t i = 0; i < piece.size(); ++i) {
      const char c = static_cast<char>(piece[i]);
      if (!utf8.Feed(piece[i])) {
        return absl::InvalidArgumentError(absl::StrCat(input.path, ": byte ", offset + i, " (line ", line_number,
                                                       ") is not UTF-8; convert the file, for example with iconv"));
      }
      if (c == '\n') {
        if (jsonl) GDF_RETURN_IF_ERROR(end_line());
        line.clear();
        ++line_number;
      } else if (jsonl) {
        line += c;
        if (line.size() > kMaxLineBytes) {
          return absl::InvalidArgumentError(absl::StrCat(input.path, ":", line_number, ": longer than 64 MiB"));
        }
      }
    }
  }
  if (!utf8.complete()) {
    return absl::InvalidArgumentError(absl::StrCat(input.path, " ends within a UTF-8 character: is it cut short?"));
  }
  return jsonl ? end_line() : absl::OkStatus();
}

}  // namespace

absl::Status CheckData(FileSystem& files, const JobFile& job) {
  const config::DataSpec& data = job.spec.data;
  for (const char* name : {"data", "valid"}) {
    const auto found = job.inputs.find(name);
    if (found == job.inputs.end()) continue;
    const uint64_t bytes = job.BytesOf(name);
    if (bytes == 0) {
      return absl::InvalidArgumentError(absl::StrCat("the dataset is empty: ", found->second.front().path,
                                                     found->second.size() > 1 ? " and the others have" : " has",
                                                     " no bytes"));
    }
    // No tokenizer makes more than one token of a byte.
    if (bytes < static_cast<uint64_t>(data.sequence_length) + 1) {
      return absl::InvalidArgumentError(absl::StrCat("the dataset is too short: ", bytes, " bytes cannot hold one sequence of ",
                                                     data.sequence_length, " tokens and its next token (", name, ")"));
    }
    for (const JobInput& input : found->second) GDF_RETURN_IF_ERROR(CheckFile(files, input, data));
  }
  return absl::OkStatus();
}

}  // namespace gdf::ctl
