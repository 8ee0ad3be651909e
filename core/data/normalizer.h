// The "normalizer" of a tokenizer.json: text to text before anything is cut.
#ifndef GDF_CORE_DATA_NORMALIZER_H_
#define GDF_CORE_DATA_NORMALIZER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/data/json_fields.h"

namespace gdf::data {

// Immutable; steps run in order.
class Normalizer {
 public:
  // From the value of "normalizer", null for none. Supports Sequence, NFC, NFD, NFKC, NFKD,
  // Lowercase, Prepend, Replace and Strip; others are kUnimplemented by name.
  static absl::StatusOr<Normalizer> Parse(const nlohmann::json* json);

  bool empty() const { return steps_.empty(); }

  // `text` is well-formed UTF-8 and stays so.
  absl::Status Apply(std::string* text) const;

 private:
  using Step = std::function<absl::Status(std::string*)>;

  absl::Status Add(const JsonObject& json);
  absl::Status AddReplace(const JsonObject& json);

  std::vector<Step> steps_;
};

}  // namespace gdf::data

#endif  // GDF_CORE_DATA_NORMALIZER_H_
