#include "core/data/tokenizer.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/data/alphabet.h"
#include "core/data/hf_files.h"
#include "core/data/hf_tokenizer.h"
#include "core/data/json_fields.h"
#include "core/data/post_processor.h"
#include "core/data/utf8.h"

namespace gdf::data {
namespace {

// The largest files in use have about 20 MB.
constexpr size_t kMaxTokenizerBytes = size_t{64} << 20;

class ByteTokenizer final : public Tokenizer {
 public:
  std::string_view name() const override { return "byte"; }
  int32_t vocab_size() const override { return 256; }
  SpecialIds special_ids() const override { return {}; }
  std::string Serialize() const override { return HfByteFile().dump(); }
  std::string Config() const override { return HfConfigFile({}, {}); }

  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view utf8, AddSpecial) const override {
    GDF_RETURN_IF_ERROR(CheckUtf8(utf8));
    std::vector<int32_t> ids(utf8.size());
    std::transform(utf8.begin(), utf8.end(), ids.begin(),
                   [](char c) { return static_cast<unsigned char>(c); });
    return ids;
  }

  std::string Decode(absl::Span<const int32_t> ids, bool) const override {
    std::string bytes;
    bytes.reserve(ids.size());
    for (const int32_t id : ids) {
      if (id >= 0 && id < 256) bytes.push_back(static_cast<char>(id));
    }
    return ToValidUtf8(std::move(bytes));
  }
};

class CharTokenizer final : public Tokenizer {
 public:
  // `alphabet` ascending.
  explicit CharTokenizer(std::vector<char32_t> alphabet) : alphabet_(std::move(alphabet)) {
    ids_.reserve(alphabet_.size());
    for (size_t i = 0; i < alphabet_.size(); ++i) {
      ids_.emplace(alphabet_[i], static_cast<int32_t>(i));
    }
  }

  std::string_view name() const override { return "char"; }
  int32_t vocab_size() const override { return static_cast<int32_t>(alphabet_.size()); }
  SpecialIds special_ids() const override { return {}; }
  std::string Serialize() const override { return HfCharFile(alphabet_).dump(); }
  std::string Config() const override { return HfConfigFile({}, {}); }

  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view utf8, AddSpecial) const override {
    GDF_RETURN_IF_ERROR(CheckUtf8(utf8));
    std::vector<int32_t> ids;
    ids.reserve(utf8.size());
    for (size_t pos = 0; pos < utf8.size();) {
      const size_t offset = pos;
      const char32_t c = NextCodePoint(utf8, &pos);
      const auto it = ids_.find(c);
      if (it == ids_.end()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "character ", CodePointName(c), " at offset ", offset, " is not among the ",
            alphabet_.size(), " characters of the training text; leave it out"));
      }
      ids.push_back(it->second);
    }
    return ids;
  }

  std::string Decode(absl::Span<const int32_t> ids, bool) const override {
    std::string text;
    for (const int32_t id : ids) {
      if (id >= 0 && id < vocab_size()) AppendUtf8(alphabet_[static_cast<size_t>(id)], &text);
    }
    return text;
  }

 private:
  const std::vector<char32_t> alphabet_;
  absl::flat_hash_map<char32_t, int32_t> ids_;  // constant after construction
};

// Null in place of a post-processor that adds nothing: `transformers` 5 has one in all that it
// saves.
void DropIdlePostProcessor(nlohmann::json* file) {
  const auto field = file->find("post_processor");
  if (field == file->end() || field->is_null()) return;
  const absl::StatusOr<PostProcessor> parsed = PostProcessor::Parse(&*field);
  if (parsed.ok() && parsed->before.empty() && parsed->behind.empty()) *field = nullptr;
}

// One of our own where `json` is all that it would write itself; else null.
std::unique_ptr<Tokenizer> FindOwn(const nlohmann::json& json) {
  if (json == HfByteFile()) return MakeByteTokenizer();
  std::vector<char32_t> alphabet = FindHfCharacters(json);
  if (alphabet.empty() || json != HfCharFile(alphabet)) return nullptr;
  return std::make_unique<CharTokenizer>(std::move(alphabet));
}

}  // namespace

void Alphabet::Add(std::string_view text) {
  for (size_t pos = 0; pos < text.size();) {
    const char32_t c = NextCodePoint(text, &pos);
    if (c >= seen_.size()) seen_.resize(c + 1);
    seen_[c] = true;
  }
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Alphabet::MakeTokenizer() const {
  std::vector<char32_t> characters;
  for (char32_t c = 0; c < seen_.size(); ++c) {
    if (seen_[c]) characters.push_back(c);
  }
  if (characters.empty()) {
    return absl::InvalidArgumentError("the text for a character tokenizer is empty");
  }
  return std::make_unique<CharTokenizer>(std::move(characters));
}

std::unique_ptr<Tokenizer> MakeByteTokenizer() { return std::make_unique<ByteTokenizer>(); }

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeCharTokenizer(
    absl::Span<const std::string_view> texts) {
  Alphabet alphabet;
  for (const std::string_view text : texts) {
    GDF_RETURN_IF_ERROR(CheckUtf8(text));
    alphabet.Add(text);
  }
  return alphabet.MakeTokenizer();
}

absl::StatusOr<std::unique_ptr<Tokenizer>> ParseTokenizer(std::string_view bytes,
                                                          std::string_view config_json) {
  absl::StatusOr<nlohmann::json> json = ParseJson(bytes, kMaxTokenizerBytes);
  if (!json.ok()) return Annotate(json.status(), "tokenizer");
  DropIdlePostProcessor(&*json);
  if (std::unique_ptr<Tokenizer> own = FindOwn(*json)) return own;
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = MakeHfTokenizer(*json, bytes, config_json);
  if (!tokenizer.ok()) return Annotate(tokenizer.status(), "tokenizer");
  return tokenizer;
}

}  // namespace gdf::data
