#include "core/data/hf_tokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/data/added_tokens.h"
#include "core/data/bpe.h"
#include "core/data/byte_alphabet.h"
#include "core/data/hf_files.h"
#include "core/data/normalizer.h"
#include "core/data/post_processor.h"
#include "core/data/pre_tokenizer.h"
#include "core/data/utf8.h"

namespace gdf::data {
namespace {

constexpr size_t kMaxConfigBytes = size_t{8} << 20;
// Words that Encode remembers within one text, and how long they may be.
constexpr size_t kMaxCachedWords = 1 << 16;
constexpr size_t kMaxCachedWordBytes = 256;

// What the ids of one token are turned back into.
struct Entry {
  std::string content;
  bool known = false;
  bool special = false;
};

enum class Decoder { kNone, kByteLevel };

absl::StatusOr<Decoder> ParseDecoder(const JsonObject& root) {
  if (root.Find("decoder") == nullptr) return Decoder::kNone;
  GDF_ASSIGN_OR_RETURN(const JsonObject json, root.Object("decoder"));
  GDF_ASSIGN_OR_RETURN(const std::string type, json.String("type"));
  if (type != "ByteLevel") {
    return absl::UnimplementedError(
        absl::StrCat("decoder of type \"", type, "\" is not supported; only ByteLevel is"));
  }
  GDF_RETURN_IF_ERROR(json.OnlyFields({"type", "add_prefix_space", "trim_offsets", "use_regex"}));
  return Decoder::kByteLevel;
}

class HfTokenizer final : public Tokenizer {
 public:
  HfTokenizer(BpeModel model, Normalizer normalizer, AddedTokens added, PreTokenizer pre_tokenizer,
              PostProcessor post_processor, Decoder decoder, SpecialIds special_ids,
              std::string_view bytes)
      : model_(std::move(model)),
        normalizer_(std::move(normalizer)),
        added_(std::move(added)),
        pre_tokenizer_(std::move(pre_tokenizer)),
        post_processor_(std::move(post_processor)),
        decoder_(decoder),
        special_ids_(special_ids),
        bytes_(bytes) {
    for (const auto& [token, id] : model_.vocab()) EntryAt(id) = {token, true, false};
    for (const AddedToken& token : added_.tokens()) {
      EntryAt(token.id) = {token.content, true, token.special};
    }
  }

  std::string_view name() const override { return "bpe"; }
  int32_t vocab_size() const override { return static_cast<int32_t>(entries_.size()); }
  SpecialIds special_ids() const override { return special_ids_; }
  std::string Serialize() const override { return bytes_; }
  std::string Config() const override {
    return HfConfigFile(TokenOf(special_ids_.bos), TokenOf(special_ids_.eos));
  }

  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view utf8,
                                              AddSpecial add_special) const override {
    GDF_RETURN_IF_ERROR(CheckUtf8(utf8));
    GDF_ASSIGN_OR_RETURN(Pieces pieces, added_.Cut(utf8, normalizer_));
    GDF_RETURN_IF_ERROR(pre_tokenizer_.Apply(&pieces));
    std::vector<int32_t> ids;
    ids.reserve(pieces.pieces.size() * 5 / 4 + 2);
    const auto append = [&ids](const std::vector<int32_t>& more) {
      ids.insert(ids.end(), more.begin(), more.end());
    };
    if (add_special == AddSpecial::kYes) append(post_processor_.before);
    EncodePieces(pieces, &ids);
    if (add_special == AddSpecial::kYes) append(post_processor_.behind);
    return ids;
  }

  std::string Decode(absl::Span<const int32_t> ids, bool skip_special) const override {
    std::string bytes;
    bool first = true;
    for (const int32_t id : ids) {
      if (id < 0 || id >= vocab_size()) continue;
      const Entry& entry = entries_[static_cast<size_t>(id)];
      if (!entry.known || (skip_special && entry.special)) continue;
      if (decoder_ == Decoder::kByteLevel) {
        AppendSpelledBytes(entry.content, &bytes);
      } else {
        absl::StrAppend(&bytes, first ? "" : " ", entry.content);
      }
      first = false;
    }
    return ToValidUtf8(std::move(bytes));
  }

 private:
  Entry& EntryAt(int32_t id) {
    const auto index = static_cast<size_t>(id);
    if (index >= entries_.size()) entries_.resize(index + 1);
    return entries_[index];
  }

  std::optional<std::string> TokenOf(std::optional<int32_t> id) const {
    if (!id || !entries_[static_cast<size_t>(*id)].known) return std::nullopt;
    return entries_[static_cast<size_t>(*id)].content;
  }

  // A word seen before in this text is copied from where its ids already are.
  void EncodePieces(const Pieces& pieces, std::vector<int32_t>* ids) const {
    struct Range {
      size_t begin;
      size_t end;
    };
    absl::flat_hash_map<absl::string_view, Range> seen;
    for (const Piece& piece : pieces.pieces) {
      if (!piece.is_text()) {
        ids->push_back(piece.id);
        continue;
      }
      const std::string_view word = pieces.TextOf(piece);
      if (word.size() > kMaxCachedWordBytes) {
        model_.EncodeWord(word, ids);
        continue;
      }
      if (const auto it = seen.find(ToAbsl(word)); it != seen.end()) {
        for (size_t i = it->second.begin; i < it->second.end; ++i) {
          const int32_t id = (*ids)[i];
          ids->push_back(id);
        }
        continue;
      }
      const size_t begin = ids->size();
      model_.EncodeWord(word, ids);
      if (seen.size() < kMaxCachedWords) seen.emplace(ToAbsl(word), Range{begin, ids->size()});
    }
  }

  const BpeModel model_;
  const Normalizer normalizer_;
  const AddedTokens added_;
  const PreTokenizer pre_tokenizer_;
  const PostProcessor post_processor_;
  const Decoder decoder_;
  const SpecialIds special_ids_;
  const std::string bytes_;
  std::vector<Entry> entries_;  // by id; constant after construction
};

// Where a file says which ids begin and end a document: a token's text, an object with its
// "content", or the id itself (of several, the first).
class SpecialIdsReader {
 public:
  SpecialIdsReader(const BpeModel& model, const AddedTokens& added)
      : model_(model), added_(added) {}

  absl::StatusOr<SpecialIds> Read(std::string_view config_json) const {
    SpecialIds ids;
    if (!config_json.empty()) {
      GDF_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJson(config_json, kMaxConfigBytes));
      GDF_ASSIGN_OR_RETURN(const JsonObject config, JsonObject::From(json, "configuration"));
      GDF_ASSIGN_OR_RETURN(ids.bos, ReadOne(config, "bos_token"));
      GDF_ASSIGN_OR_RETURN(ids.eos, ReadOne(config, "eos_token"));
    }
    for (const char* usual : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"}) {
      if (ids.eos) break;
      const AddedToken* token = added_.FindContent(usual);
      if (token != nullptr && token->special) ids.eos = token->id;
    }
    return ids;
  }

 private:
  absl::StatusOr<std::optional<int32_t>> ReadOne(const JsonObject& config,
                                                 const std::string& token_key) const {
    const std::string id_key = absl::StrCat(token_key, "_id");
    if (const nlohmann::json* token = config.Find(token_key)) {
      if (token->is_string()) return IdOf(token->get<std::string>(), config.NameOf(token_key));
      GDF_ASSIGN_OR_RETURN(const JsonObject object, config.Object(token_key));
      GDF_ASSIGN_OR_RETURN(const std::string content, object.String("content"));
      return IdOf(content, config.NameOf(token_key));
    }
    const nlohmann::json* id = config.Find(id_key);
    if (id == nullptr) return std::nullopt;
    if (id->is_array() && !id->empty()) id = &id->front();
    if (!id->is_number_unsigned() || id->get<uint64_t>() > uint64_t{kMaxTokenId}) {
      return absl::InvalidArgumentError(absl::StrCat(config.NameOf(id_key), " is no token id"));
    }
    return id->get<int32_t>();
  }

  absl::StatusOr<std::optional<int32_t>> IdOf(const std::string& content,
                                              const std::string& where) const {
    const AddedToken* token = added_.FindContent(content);
    const int32_t id = token != nullptr ? token->id : model_.IdOf(content);
    if (id < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " \"", content, "\" is no token of the tokenizer"));
    }
    return id;
  }

  const BpeModel& model_;
  const AddedTokens& added_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeHfTokenizer(const nlohmann::json& json,
                                                           std::string_view bytes,
                                                           std::string_view config_json) {
  GDF_ASSIGN_OR_RETURN(const JsonObject root, JsonObject::From(json, ""));
  // Truncation and padding change what encode gives; a file for training has neither.
  GDF_RETURN_IF_ERROR(root.OnlyFields({"version", "added_tokens", "normalizer", "pre_tokenizer",
                                       "post_processor", "decoder", "model"}));
  GDF_ASSIGN_OR_RETURN(const std::string version, root.String("version", "1.0"));
  if (version != "1.0") {
    return absl::UnimplementedError(
        absl::StrCat("version \"", version, "\" of tokenizer.json is not supported; 1.0 is"));
  }
  GDF_ASSIGN_OR_RETURN(const JsonObject model_json, root.Object("model"));
  GDF_ASSIGN_OR_RETURN(BpeModel model, BpeModel::Parse(model_json));
  GDF_ASSIGN_OR_RETURN(Normalizer normalizer, Normalizer::Parse(root.Find("normalizer")));
  GDF_ASSIGN_OR_RETURN(AddedTokens added,
                       AddedTokens::Parse(
                           root.Find("added_tokens"), normalizer,
                           [&model](std::string_view token) { return model.IdOf(token); },
                           static_cast<int32_t>(model.vocab().size())));
  GDF_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer, PreTokenizer::Parse(root.Find("pre_tokenizer")));
  GDF_ASSIGN_OR_RETURN(PostProcessor post_processor,
                       PostProcessor::Parse(root.Find("post_processor")));
  GDF_ASSIGN_OR_RETURN(const Decoder decoder, ParseDecoder(root));
  GDF_ASSIGN_OR_RETURN(const SpecialIds special_ids,
                       SpecialIdsReader(model, added).Read(config_json));
  auto tokenizer = std::make_unique<HfTokenizer>(
      std::move(model), std::move(normalizer), std::move(added), std::move(pre_tokenizer),
      std::move(post_processor), decoder, special_ids, bytes);
  for (const std::optional<int32_t>& id : {special_ids.bos, special_ids.eos}) {
    if (id && *id >= tokenizer->vocab_size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("configuration: the id ", *id, " of bos or eos is beyond the ",
                       tokenizer->vocab_size(), " tokens of the tokenizer"));
    }
  }
  return tokenizer;
}

}  // namespace gdf::data
