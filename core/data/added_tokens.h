// The "added_tokens" of a tokenizer.json: tokens found in the text before anything else happens to
// it (or, where they are "normalized", right after the normalizer).
#ifndef GDF_CORE_DATA_ADDED_TOKENS_H_
#define GDF_CORE_DATA_ADDED_TOKENS_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/data/json_fields.h"
#include "core/data/normalizer.h"
#include "core/data/pieces.h"

namespace gdf::data {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool single_word = false;  // only where no word character is beside it
  bool lstrip = false;       // takes the white space before it too
  bool rstrip = false;
  bool normalized = false;  // sought in the normalized text
  bool special = false;
};

// Finds, from left to right, the longest of a set of tokens at each place. Immutable once filled.
class TokenFinder {
 public:
  // The first of equal patterns stays. `pattern` is not empty; `token` is given back by Find.
  void Add(std::string_view pattern, size_t token);

  // The leftmost match at or behind `from`, of these the longest. False: none.
  bool Find(std::string_view text, size_t from, size_t* begin, size_t* end, size_t* token) const;

 private:
  static constexpr size_t kNoToken = static_cast<size_t>(-1);

  absl::flat_hash_map<uint64_t, uint32_t> children_;  // node << 8 | byte → node
  std::vector<size_t> token_of_node_ = {kNoToken};
  std::array<bool, 256> begins_{};
};

// Immutable.
class AddedTokens {
 public:
  // From the value of "added_tokens", null for none. `model_id` gives a token's id in the model's
  // vocabulary or -1, `model_size` is the number of its tokens. kInvalidArgument: malformed, twice
  // the same token, or an id other than the one that the `tokenizers` library would give it.
  static absl::StatusOr<AddedTokens> Parse(const nlohmann::json* json, const Normalizer& normalizer,
                                           absl::FunctionRef<int32_t(std::string_view)> model_id,
                                           int32_t model_size);

  const std::vector<AddedToken>& tokens() const { return tokens_; }

  // Null where there is none.
  const AddedToken* FindContent(std::string_view content) const;

  // `text` with its added tokens cut out and everything else normalized.
  absl::StatusOr<Pieces> Cut(std::string_view text, const Normalizer& normalizer) const;

 private:
  void CutBy(const TokenFinder& finder, std::string_view text,
             absl::FunctionRef<void(size_t begin, size_t end, int32_t id)> emit) const;

  std::vector<AddedToken> tokens_;
  TokenFinder in_original_;
  TokenFinder in_normalized_;
};

}  // namespace gdf::data

#endif  // GDF_CORE_DATA_ADDED_TOKENS_H_
