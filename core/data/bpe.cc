#include "core/data/bpe.h"

#include <queue>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/data/utf8.h"

namespace gdf::data {
namespace {

uint64_t PairKey(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

// One symbol of a word, in a doubly linked list over a vector.
struct Symbol {
  int32_t id;
  int32_t previous;
  int32_t next;  // -1 at the end
  bool removed = false;
};

struct Candidate {
  int32_t rank;
  int32_t position;  // of the left symbol
  int32_t id;        // what the two become

  // std::priority_queue gives the greatest: the lowest rank, then the leftmost.
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.position > b.position;
  }
};

}  // namespace

absl::StatusOr<BpeModel> BpeModel::Parse(const JsonObject& json) {
  GDF_ASSIGN_OR_RETURN(const std::string type, json.String("type", "BPE"));
  if (type != "BPE") {
    return absl::UnimplementedError(
        absl::StrCat("model of type \"", type, "\" is not supported; only BPE is"));
  }
  GDF_RETURN_IF_ERROR(json.OnlyFields({"type", "dropout", "unk_token", "continuing_subword_prefix",
                                       "end_of_word_suffix", "fuse_unk", "byte_fallback",
                                       "ignore_merges", "vocab", "merges"}));
  if (const nlohmann::json* dropout = json.Find("dropout");
      dropout != nullptr && !(dropout->is_number() && dropout->get<double>() == 0)) {
    return absl::UnimplementedError("model.dropout is not supported; set it to null");
  }
  for (const std::string_view affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    GDF_ASSIGN_OR_RETURN(const std::string value, json.String(affix, ""));
    if (!value.empty()) {
      return absl::UnimplementedError(
          absl::StrCat(json.NameOf(affix), " \"", value, "\" is not supported"));
    }
  }
  BpeModel model;
  GDF_ASSIGN_OR_RETURN(model.fuse_unknown_, json.Bool("fuse_unk", false));
  GDF_ASSIGN_OR_RETURN(model.byte_fallback_, json.Bool("byte_fallback", false));
  GDF_ASSIGN_OR_RETURN(model.ignore_merges_, json.Bool("ignore_merges", false));
  GDF_RETURN_IF_ERROR(model.ParseVocab(json));
  GDF_RETURN_IF_ERROR(model.ParseMerges(json));
  if (json.Find("unk_token") != nullptr) {
    GDF_ASSIGN_OR_RETURN(const std::string unknown, json.String("unk_token"));
    model.unknown_id_ = model.IdOf(unknown);
    if (model.unknown_id_ < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("model.unk_token \"", unknown, "\" is not in model.vocab"));
    }
  }
  return model;
}

absl::Status BpeModel::ParseVocab(const JsonObject& json) {
  GDF_ASSIGN_OR_RETURN(const JsonObject vocab, json.Object("vocab"));
  const nlohmann::json& entries = *json.Find("vocab");
  if (entries.empty()) return absl::InvalidArgumentError("model.vocab is empty");
  vocab_.reserve(entries.size());
  absl::flat_hash_set<int32_t> ids;
  for (const auto& [token, value] : entries.items()) {
    GDF_ASSIGN_OR_RETURN(const int64_t id, vocab.Integer(token, kMaxTokenId));
    if (!ids.insert(static_cast<int32_t>(id)).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("model.vocab gives id ", id, " to \"", token, "\" and another token"));
    }
    vocab_.emplace(token, static_cast<int32_t>(id));
  }
  for (size_t c = 0; c < short_character_ids_.size(); ++c) {
    std::string character;
    AppendUtf8(static_cast<char32_t>(c), &character);
    short_character_ids_[c] = IdOf(character);
  }
  for (int byte = 0; byte < 256; ++byte) {
    byte_ids_[static_cast<size_t>(byte)] = IdOf(absl::StrFormat("<0x%02X>", byte));
  }
  return absl::OkStatus();
}

absl::Status BpeModel::ParseMerges(const JsonObject& json) {
  GDF_ASSIGN_OR_RETURN(const nlohmann::json* merges, json.Array("merges"));
  merges_.reserve(merges->size());
  for (size_t rank = 0; rank < merges->size(); ++rank) {
    const nlohmann::json& merge = (*merges)[rank];
    if (merge.is_string()) {  // "left right", until tokenizers 0.20
      const std::string& text = merge.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos) {
        const std::string_view both = text;
        GDF_RETURN_IF_ERROR(AddMerge(both.substr(0, space), both.substr(space + 1), rank));
        continue;
      }
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      GDF_RETURN_IF_ERROR(AddMerge(merge[0].get_ref<const std::string&>(),
                                   merge[1].get_ref<const std::string&>(), rank));
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("model.merges[", rank, "] is not two tokens with one space between them"));
  }
  return absl::OkStatus();
}

absl::Status BpeModel::AddMerge(std::string_view left, std::string_view right, size_t rank) {
  const std::string joined = absl::StrCat(ToAbsl(left), ToAbsl(right));
  for (const std::string_view token : {left, right, std::string_view(joined)}) {
    if (IdOf(token) < 0) {
      return absl::InvalidArgumentError(absl::StrCat("model.merges[", rank, "] needs the token \"",
                                                     ToAbsl(token), "\", which model.vocab lacks"));
    }
  }
  merges_.insert_or_assign(PairKey(IdOf(left), IdOf(right)),
                           Merge{static_cast<int32_t>(rank), IdOf(joined)});
  return absl::OkStatus();
}

int32_t BpeModel::IdOf(std::string_view token) const {
  const auto it = vocab_.find(ToAbsl(token));
  return it == vocab_.end() ? -1 : it->second;
}

const BpeModel::Merge* BpeModel::FindMerge(int32_t left, int32_t right) const {
  const auto it = merges_.find(PairKey(left, right));
  return it == merges_.end() ? nullptr : &it->second;
}

void BpeModel::EncodeWord(std::string_view word, std::vector<int32_t>* ids) const {
  if (ignore_merges_) {
    if (const int32_t id = IdOf(word); id >= 0) {
      ids->push_back(id);
      return;
    }
  }
  MergeAll(CharacterIds(word), ids);
}

std::vector<int32_t> BpeModel::CharacterIds(std::string_view word) const {
  std::vector<int32_t> ids;
  ids.reserve(word.size());
  bool unknown_waits = false;
  for (size_t pos = 0; pos < word.size();) {
    const size_t begin = pos;
    const char32_t c = NextCodePoint(word, &pos);
    const std::string_view character = word.substr(begin, pos - begin);
    const int32_t id = c < short_character_ids_.size() ? short_character_ids_[c] : IdOf(character);
    if (id >= 0) {
      if (std::exchange(unknown_waits, false)) ids.push_back(unknown_id_);
      ids.push_back(id);
    } else if (byte_fallback_ && AppendByteTokens(character, &ids)) {
      // A waiting unknown token comes behind these bytes: so it is in the library.
    } else if (unknown_id_ >= 0) {
      if (unknown_waits && !fuse_unknown_) ids.push_back(unknown_id_);
      unknown_waits = true;
    }
  }
  if (unknown_waits) ids.push_back(unknown_id_);
  return ids;
}

bool BpeModel::AppendByteTokens(std::string_view character, std::vector<int32_t>* ids) const {
  for (const char byte : character) {
    if (byte_ids_[static_cast<unsigned char>(byte)] < 0) return false;
  }
  for (const char byte : character) ids->push_back(byte_ids_[static_cast<unsigned char>(byte)]);
  return true;
}

void BpeModel::MergeAll(const std::vector<int32_t>& characters, std::vector<int32_t>* ids) const {
  const auto count = static_cast<int32_t>(characters.size());
  std::vector<Symbol> symbols;
  symbols.reserve(characters.size());
  for (int32_t i = 0; i < count; ++i) {
    symbols.push_back({characters[static_cast<size_t>(i)], i - 1, i + 1 < count ? i + 1 : -1});
  }
  const auto at = [&symbols](int32_t i) -> Symbol& { return symbols[static_cast<size_t>(i)]; };
  std::vector<Candidate> storage;
  storage.reserve(characters.size());
  std::priority_queue<Candidate> candidates({}, std::move(storage));
  const auto consider = [&](int32_t left) {
    if (left < 0 || at(left).next < 0) return;
    if (const Merge* merge = FindMerge(at(left).id, at(at(left).next).id)) {
      candidates.push({merge->rank, left, merge->id});
    }
  };
  for (int32_t i = 0; i < count; ++i) consider(i);
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Symbol& left = at(best.position);
    if (left.removed || left.next < 0) continue;
    Symbol& right = at(left.next);
    // What stood here when the candidate was made may have been merged away since.
    const Merge* merge = FindMerge(left.id, right.id);
    if (merge == nullptr || merge->id != best.id) continue;
    left.id = best.id;
    left.next = right.next;
    right.removed = true;
    if (left.next >= 0) at(left.next).previous = best.position;
    consider(left.previous);
    consider(best.position);
  }
  for (const Symbol& symbol : symbols) {
    if (!symbol.removed) ids->push_back(symbol.id);
  }
}

}  // namespace gdf::data
