// Text to token ids and back: one interface over character, byte and Hugging Face tokenizers.
// All of them are built from bytes in memory. A file that asks for anything not implemented is
// refused by name, so that ids are either those of the `tokenizers` library or none at all.
//
//   GDF_ASSIGN_OR_RETURN(auto tokenizer, data::ParseTokenizer(tokenizer_json, config_json));
//   GDF_ASSIGN_OR_RETURN(auto ids, tokenizer->Encode("Hello"));
#ifndef GDF_CORE_DATA_TOKENIZER_H_
#define GDF_CORE_DATA_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gdf::data {

// Ids that begin and end a document, where the tokenizer has them.
struct SpecialIds {
  std::optional<int32_t> bos;
  std::optional<int32_t> eos;
};

// Whether Encode adds what the tokenizer's post-processing template adds (Llama 3: its bos).
// Special tokens written out in the text itself become their ids either way.
enum class AddSpecial { kNo, kYes };

// Immutable; every method may be called from any thread at the same time.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // "char", "byte" or "bpe".
  virtual std::string_view name() const = 0;

  // One more than the largest id that Encode can give: the least size of an embedding table.
  virtual int32_t vocab_size() const = 0;

  virtual SpecialIds special_ids() const = 0;

  // The ids of `utf8`. kInvalidArgument: not UTF-8, or a character that the tokenizer has no id
  // for (the byte offset and the code point are in the message). kResourceExhausted: a hostile
  // regular expression of the tokenizer ran past its limit.
  virtual absl::StatusOr<std::vector<int32_t>> Encode(
      std::string_view utf8, AddSpecial add_special = AddSpecial::kNo) const = 0;

  // The text of `ids`, always valid UTF-8: bytes that form none (a character cut in two) become
  // U+FFFD as in Rust's String::from_utf8_lossy. Ids the tokenizer does not have are left out.
  // `skip_special` leaves out special tokens too.
  virtual std::string Decode(absl::Span<const int32_t> ids, bool skip_special = false) const = 0;

  // A Hugging Face tokenizer.json, from which ParseTokenizer makes this tokenizer again and the
  // `tokenizers` library one with the same ids.
  virtual std::string Serialize() const = 0;

  // The tokenizer_config.json that belongs to it: names the special ids, and has `transformers`
  // take the file as it is.
  virtual std::string Config() const = 0;
};

// One id a byte, 0 to 255; neither bos nor eos.
std::unique_ptr<Tokenizer> MakeByteTokenizer();

// One id a character: the place of its code point in the sorted set of all code points of `texts`,
// as char-gpt recipes do. Encode refuses a character that is not in the alphabet.
// kInvalidArgument: not UTF-8, or no character at all.
absl::StatusOr<std::unique_ptr<Tokenizer>> MakeCharTokenizer(
    absl::Span<const std::string_view> texts);

// A tokenizer from a Hugging Face `tokenizer.json` (docs/formats/tokenizers.md lists what is
// supported): the byte or a character tokenizer where that is what Serialize of it gives, or what
// `transformers` saves of that.
//
// `config_json` may hold tokenizer_config.json (bos_token, eos_token) or config.json (bos_token_id,
// eos_token_id) and names the special ids. Where it is empty or silent, eos is the first of
// <|endoftext|>, <|end_of_text|>, </s>, <eos> among the special added tokens, and bos is unset.
//
// kInvalidArgument: malformed, inconsistent (a merge of tokens that the vocabulary lacks), too
// large or too deep. kUnimplemented: a part this build does not have; the message names it.
absl::StatusOr<std::unique_ptr<Tokenizer>> ParseTokenizer(std::string_view bytes,
                                                          std::string_view config_json = {});

}  // namespace gdf::data

#endif  // GDF_CORE_DATA_TOKENIZER_H_
