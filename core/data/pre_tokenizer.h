// The "pre_tokenizer" of a tokenizer.json: cuts text into the words that BPE sees.
#ifndef GDF_CORE_DATA_PRE_TOKENIZER_H_
#define GDF_CORE_DATA_PRE_TOKENIZER_H_

#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/data/json_fields.h"
#include "core/data/pieces.h"

namespace gdf::data {

// Immutable; steps run in order.
class PreTokenizer {
 public:
  // From the value of "pre_tokenizer", null for none. Supports Sequence, Split, Digits and
  // ByteLevel; others are kUnimplemented by name.
  static absl::StatusOr<PreTokenizer> Parse(const nlohmann::json* json);

  // Cuts every text piece further; added tokens stay.
  absl::Status Apply(Pieces* pieces) const;

 private:
  using Step = std::function<absl::Status(Pieces*)>;

  absl::Status Add(const JsonObject& json);
  absl::Status AddSplit(const JsonObject& json);
  absl::Status AddDigits(const JsonObject& json);
  absl::Status AddByteLevel(const JsonObject& json);

  std::vector<Step> steps_;
};

}  // namespace gdf::data

#endif  // GDF_CORE_DATA_PRE_TOKENIZER_H_
