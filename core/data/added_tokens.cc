#include "core/data/added_tokens.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/data/unicode.h"
#include "core/data/utf8.h"

namespace gdf::data {
namespace {

bool EndsWithWord(std::string_view text) {
  size_t end = text.size();
  return end > 0 && IsWordCharacter(PreviousCodePoint(text, &end));
}

bool StartsWithWord(std::string_view text) {
  size_t begin = 0;
  return !text.empty() && IsWordCharacter(NextCodePoint(text, &begin));
}

// Where the white space that ends at `end` begins.
size_t SpaceBefore(std::string_view text, size_t end) {
  while (end > 0) {
    size_t previous = end;
    if (!IsWhiteSpace(PreviousCodePoint(text, &previous))) break;
    end = previous;
  }
  return end;
}

size_t SpaceBehind(std::string_view text, size_t begin) {
  while (begin < text.size()) {
    size_t next = begin;
    if (!IsWhiteSpace(NextCodePoint(text, &next))) break;
    begin = next;
  }
  return begin;
}

absl::StatusOr<AddedToken> ParseToken(const JsonObject& json) {
  GDF_RETURN_IF_ERROR(json.OnlyFields(
      {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
  AddedToken token;
  GDF_ASSIGN_OR_RETURN(const int64_t id,
                       json.Integer("id", std::numeric_limits<int32_t>::max() - 1));
  token.id = static_cast<int32_t>(id);
  GDF_ASSIGN_OR_RETURN(token.content, json.String("content"));
  GDF_ASSIGN_OR_RETURN(token.single_word, json.Bool("single_word"));
  GDF_ASSIGN_OR_RETURN(token.lstrip, json.Bool("lstrip"));
  GDF_ASSIGN_OR_RETURN(token.rstrip, json.Bool("rstrip"));
  GDF_ASSIGN_OR_RETURN(token.normalized, json.Bool("normalized"));
  GDF_ASSIGN_OR_RETURN(token.special, json.Bool("special"));
  if (token.content.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(json.NameOf("content"), " is empty"));
  }
  return token;
}

}  // namespace

void TokenFinder::Add(std::string_view pattern, size_t token) {
  begins_[static_cast<unsigned char>(pattern.front())] = true;
  uint32_t node = 0;
  for (const char c : pattern) {
    const uint64_t edge = uint64_t{node} << 8 | static_cast<unsigned char>(c);
    const auto [it, is_new] =
        children_.try_emplace(edge, static_cast<uint32_t>(token_of_node_.size()));
    if (is_new) token_of_node_.push_back(kNoToken);
    node = it->second;
  }
  if (token_of_node_[node] == kNoToken) token_of_node_[node] = token;
}

bool TokenFinder::Find(std::string_view text, size_t from, size_t* begin, size_t* end,
                       size_t* token) const {
  for (size_t start = from; start < text.size(); ++start) {
    if (!begins_[static_cast<unsigned char>(text[start])]) continue;
    *token = kNoToken;
    uint32_t node = 0;
    for (size_t i = start; i < text.size(); ++i) {
      const auto it = children_.find(uint64_t{node} << 8 | static_cast<unsigned char>(text[i]));
      if (it == children_.end()) break;
      node = it->second;
      if (token_of_node_[node] != kNoToken) {
        *token = token_of_node_[node];
        *end = i + 1;
      }
    }
    if (*token != kNoToken) {
      *begin = start;
      return true;
    }
  }
  return false;
}

absl::StatusOr<AddedTokens> AddedTokens::Parse(
    const nlohmann::json* json, const Normalizer& normalizer,
    absl::FunctionRef<int32_t(std::string_view)> model_id, int32_t model_size) {
  AddedTokens added;
  if (json == nullptr) return added;
  if (!json->is_array()) return absl::InvalidArgumentError("added_tokens is no array");
  absl::flat_hash_set<std::string> contents;
  int32_t largest_id = -1;
  for (size_t i = 0; i < json->size(); ++i) {
    const std::string name = absl::StrCat("added_tokens[", i, "]");
    GDF_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::From((*json)[i], name));
    GDF_ASSIGN_OR_RETURN(AddedToken token, ParseToken(object));
    if (!contents.insert(token.content).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " \"", token.content, "\" is there twice"));
    }
    // The library goes by the model's vocabulary and the order, and only warns of another "id".
    int32_t id = model_id(token.content);
    if (id < 0) id = std::max(model_size, largest_id + 1);
    if (id != token.id) {
      return absl::InvalidArgumentError(absl::StrCat(name, " \"", token.content, "\" has id ",
                                                     token.id, "; its place gives it ", id));
    }
    largest_id = std::max(largest_id, id);
    added.tokens_.push_back(std::move(token));
  }
  for (size_t i = 0; i < added.tokens_.size(); ++i) {
    const AddedToken& token = added.tokens_[i];
    std::string pattern = token.content;
    if (token.normalized) GDF_RETURN_IF_ERROR(normalizer.Apply(&pattern));
    if (pattern.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("added_tokens[", i, "] \"", token.content, "\" is empty once normalized"));
    }
    (token.normalized ? added.in_normalized_ : added.in_original_).Add(pattern, i);
  }
  return added;
}

const AddedToken* AddedTokens::FindContent(std::string_view content) const {
  for (const AddedToken& token : tokens_) {
    if (token.content == content) return &token;
  }
  return nullptr;
}

void AddedTokens::CutBy(const TokenFinder& finder, std::string_view text,
                        absl::FunctionRef<void(size_t begin, size_t end, int32_t id)> emit) const {
  size_t done = 0;  // everything before it is emitted; white space taken by rstrip may pass `from`
  size_t begin = 0, end = 0, index = 0;
  for (size_t from = 0; finder.Find(text, from, &begin, &end, &index);) {
    from = end;
    const AddedToken& token = tokens_[index];
    if (token.single_word &&
        (EndsWithWord(text.substr(0, begin)) || StartsWithWord(text.substr(end)))) {
      continue;
    }
    if (token.lstrip) begin = std::max(SpaceBefore(text, begin), done);
    if (token.rstrip) end = SpaceBehind(text, end);
    if (done < begin) emit(done, begin, -1);
    emit(begin, end, token.id);
    done = end;
  }
  if (done < text.size()) emit(done, text.size(), -1);
}

absl::StatusOr<Pieces> AddedTokens::Cut(std::string_view text, const Normalizer& normalizer) const {
  Pieces out;
  absl::Status status;
  out.text.reserve(text.size());
  CutBy(in_original_, text, [&](size_t begin, size_t end, int32_t id) {
    if (id >= 0) {
      out.pieces.push_back({out.text.size(), out.text.size(), id});
      return;
    }
    std::string part(text.substr(begin, end - begin));
    status.Update(normalizer.Apply(&part));
    if (!status.ok()) return;
    const size_t offset = out.text.size();
    CutBy(in_normalized_, part, [&](size_t inner_begin, size_t inner_end, int32_t inner_id) {
      if (inner_id >= 0) {
        out.pieces.push_back({offset, offset, inner_id});
      } else {
        out.AddText(offset + inner_begin, offset + inner_end);
      }
    });
    out.text += part;
  });
  GDF_RETURN_IF_ERROR(status);
  return out;
}

}  // namespace gdf::data
