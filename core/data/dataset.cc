#include "core/data/dataset.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/data/alphabet.h"
#include "core/data/json_fields.h"
#include "core/data/utf8.h"

namespace gdf::data {
namespace {

constexpr size_t kMaxLineBytes = size_t{64} << 20;

using Visitor = absl::FunctionRef<absl::Status(std::string_view)>;

absl::StatusOr<std::string> DocumentOfLine(std::string_view line, const std::string& text_field) {
  GDF_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(line, kMaxLineBytes));
  GDF_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::From(json, "the line"));
  return object.String(text_field);
}

absl::Status VisitLines(const SourceFile& file, const std::string& text_field, Visitor visit) {
  int64_t number = 0;
  for (size_t begin = 0; begin < file.bytes.size();) {
    const size_t newline = file.bytes.find('\n', begin);
    const size_t end = newline == std::string_view::npos ? file.bytes.size() : newline;
    const std::string_view line = file.bytes.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const absl::StatusOr<std::string> document = DocumentOfLine(line, text_field);
    if (!document.ok()) {
      return Annotate(document.status(), absl::StrCat(file.name, " line ", number));
    }
    if (!document->empty()) GDF_RETURN_IF_ERROR(visit(*document));
  }
  return absl::OkStatus();
}

absl::Status TooShort(std::string_view part, int64_t part_len, int64_t total,
                      const CorpusOptions& options) {
  return absl::InvalidArgumentError(absl::StrCat(
      "the ", ToAbsl(part), " part has ", part_len, " of the dataset's ", total,
      " tokens; one window of sequence length ", options.seq_len, " takes ", options.seq_len + 1,
      ": use more text, a shorter sequence or another held-out fraction than ",
      options.valid_fraction));
}

}  // namespace

absl::Status ForEachDocument(absl::Span<const SourceFile> files, const SourceOptions& options,
                             Visitor visit) {
  for (const SourceFile& file : files) {
    if (options.format == SourceFormat::kJsonl) {
      GDF_RETURN_IF_ERROR(VisitLines(file, options.text_field, visit));
      continue;
    }
    GDF_RETURN_IF_ERROR(Annotate(CheckUtf8(file.bytes), file.name));
    if (!file.bytes.empty()) GDF_RETURN_IF_ERROR(visit(file.bytes));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeCharTokenizerFor(absl::Span<const SourceFile> files,
                                                                const SourceOptions& options) {
  Alphabet alphabet;
  GDF_RETURN_IF_ERROR(ForEachDocument(files, options, [&](std::string_view document) {
    alphabet.Add(document);
    return absl::OkStatus();
  }));
  return alphabet.MakeTokenizer();
}

absl::StatusOr<TokenizedCorpus> TokenizedCorpus::Build(absl::Span<const SourceFile> files,
                                                       const Tokenizer& tokenizer,
                                                       const CorpusOptions& options) {
  if (options.seq_len < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequence length ", options.seq_len, "; at least 1 is needed"));
  }
  if (!(options.valid_fraction >= 0 && options.valid_fraction < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("held-out fraction ", options.valid_fraction,
                                                   "; from 0 to below 1 was expected"));
  }
  TokenizedCorpus corpus;
  const std::optional<int32_t> eos = tokenizer.special_ids().eos;
  GDF_RETURN_IF_ERROR(ForEachDocument(files, options.source, [&](std::string_view document) {
    absl::StatusOr<std::vector<int32_t>> ids = tokenizer.Encode(document);
    if (!ids.ok()) {
      return Annotate(ids.status(), absl::StrCat("document ", corpus.document_starts_.size() + 1));
    }
    corpus.document_starts_.push_back(static_cast<int64_t>(corpus.tokens_.size()));
    corpus.tokens_.insert(corpus.tokens_.end(), ids->begin(), ids->end());
    if (eos) corpus.tokens_.push_back(*eos);
    return absl::OkStatus();
  }));
  const auto total = static_cast<int64_t>(corpus.tokens_.size());
  if (total == 0) {
    return absl::InvalidArgumentError(absl::StrCat("the dataset holds no text in its ",
                                                   files.size(), " files; give it at least one"));
  }
  corpus.train_len_ =
      static_cast<int64_t>((1.0 - options.valid_fraction) * static_cast<double>(total));
  if (corpus.train_len_ <= options.seq_len) {
    return TooShort("training", corpus.train_len_, total, options);
  }
  if (options.valid_fraction > 0 && total - corpus.train_len_ <= options.seq_len) {
    return TooShort("held-out", total - corpus.train_len_, total, options);
  }
  return corpus;
}

}  // namespace gdf::data
