// A dataset's files, given as bytes in memory, to one vector of tokens with a held-out part.
// Whoever calls expands folders and globs and says the order of the files; the same bytes in the
// same order give the same corpus on every node.
#ifndef GDF_CORE_DATA_DATASET_H_
#define GDF_CORE_DATA_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/data/tokenizer.h"

namespace gdf::data {

// One file of a dataset. `name` is for messages only; `bytes` must outlive the call.
struct SourceFile {
  std::string name;
  std::string_view bytes;
};

enum class SourceFormat {
  kText,   // a file is one document
  kJsonl,  // a line is one JSON object whose text_field is one document; blank lines are skipped
};

struct SourceOptions {
  SourceFormat format = SourceFormat::kText;
  std::string text_field = "text";  // kJsonl only
};

// Calls `visit` with every document in order; a view is valid during its call only. Empty
// documents are left out. Stops at the first error.
// kInvalidArgument: not UTF-8 (file and byte offset), a line that is no object or whose text field
// is missing or no string (file and line number).
absl::Status ForEachDocument(absl::Span<const SourceFile> files, const SourceOptions& options,
                             absl::FunctionRef<absl::Status(std::string_view)> visit);

// The character tokenizer of a dataset: its alphabet is every character of every document.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeCharTokenizerFor(absl::Span<const SourceFile> files,
                                                                const SourceOptions& options);

struct CorpusOptions {
  SourceOptions source;
  // The last part of the tokens is held out: training has the first
  // floor((1 - valid_fraction) * tokens). In [0, 1); 0 holds nothing out.
  double valid_fraction = 0.1;
  int64_t seq_len = 1;  // both parts must hold seq_len + 1 tokens
};

// All tokens of a dataset. Immutable, movable.
class TokenizedCorpus {
 public:
  // Tokenizes every document, with the tokenizer's eos (where it has one) after each, and splits.
  // kInvalidArgument: an error of ForEachDocument or Encode with the document's number before it,
  // no text at all, or a part too short for one window (the sizes and what to change are said).
  static absl::StatusOr<TokenizedCorpus> Build(absl::Span<const SourceFile> files,
                                               const Tokenizer& tokenizer,
                                               const CorpusOptions& options);

  absl::Span<const int32_t> train() const {
    return absl::MakeConstSpan(tokens_).subspan(0, train_len_);
  }
  // Never trained on. Empty where valid_fraction is 0.
  absl::Span<const int32_t> valid() const {
    return absl::MakeConstSpan(tokens_).subspan(train_len_);
  }
  absl::Span<const int32_t> tokens() const { return tokens_; }

  // [num_documents] where each document's tokens begin in tokens(), ascending, first 0.
  absl::Span<const int64_t> document_starts() const { return document_starts_; }

 private:
  TokenizedCorpus() = default;

  std::vector<int32_t> tokens_;
  std::vector<int64_t> document_starts_;
  int64_t train_len_ = 0;
};

}  // namespace gdf::data

#endif  // GDF_CORE_DATA_DATASET_H_
