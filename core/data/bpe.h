// Byte-pair encoding (Sennrich, Haddow, Birch 2016) as the model of a tokenizer.json: of all
// neighbours in a word that have a merge, the one of lowest rank is joined first, from the left.
#ifndef GDF_CORE_DATA_BPE_H_
#define GDF_CORE_DATA_BPE_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/data/json_fields.h"

namespace gdf::data {

// Largest id of a token that is accepted, so that tables indexed by id stay bounded.
inline constexpr int32_t kMaxTokenId = (1 << 22) - 1;

// Immutable.
class BpeModel {
 public:
  // From the value of "model". kInvalidArgument: vocab or merges missing or malformed, a merge of
  // or to a token that vocab lacks, two tokens of one id. kUnimplemented: another model, dropout,
  // subword prefixes and suffixes.
  static absl::StatusOr<BpeModel> Parse(const JsonObject& json);

  // The id of a token, or -1.
  int32_t IdOf(std::string_view token) const;

  const absl::flat_hash_map<std::string, int32_t>& vocab() const { return vocab_; }

  // Appends the ids of one word. A character that has no token becomes its bytes' tokens
  // (byte_fallback) or the unknown token, or is left out where the model has neither: that is what
  // the library does.
  void EncodeWord(std::string_view word, std::vector<int32_t>* ids) const;

 private:
  struct Merge {
    int32_t rank;
    int32_t id;
  };

  BpeModel() = default;

  absl::Status ParseVocab(const JsonObject& json);
  absl::Status ParseMerges(const JsonObject& json);
  absl::Status AddMerge(std::string_view left, std::string_view right, size_t rank);
  const Merge* FindMerge(int32_t left, int32_t right) const;
  std::vector<int32_t> CharacterIds(std::string_view word) const;
  bool AppendByteTokens(std::string_view character, std::vector<int32_t>* ids) const;
  void MergeAll(const std::vector<int32_t>& characters, std::vector<int32_t>* ids) const;

  absl::flat_hash_map<std::string, int32_t> vocab_;
  absl::flat_hash_map<uint64_t, Merge> merges_;       // left id << 32 | right id
  std::array<int32_t, 0x180> short_character_ids_{};  // of code points below, which all bytes are
  std::array<int32_t, 256> byte_ids_{};               // of <0x00> to <0xFF>
  int32_t unknown_id_ = -1;
  bool fuse_unknown_ = false;
  bool byte_fallback_ = false;
  bool ignore_merges_ = false;  // a word that is a token as it stands is that token
};

}  // namespace gdf::data

#endif  // GDF_CORE_DATA_BPE_H_
