// The "post_processor" of a tokenizer.json for a single text: special tokens around it.
#ifndef GDF_CORE_DATA_POST_PROCESSOR_H_
#define GDF_CORE_DATA_POST_PROCESSOR_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/data/json_fields.h"

namespace gdf::data {

struct PostProcessor {
  std::vector<int32_t> before;
  std::vector<int32_t> behind;

  // From the value of "post_processor", null for none. Supports Sequence, ByteLevel (which moves
  // offsets only) and TemplateProcessing with one $A; others are kUnimplemented by name.
  static absl::StatusOr<PostProcessor> Parse(const nlohmann::json* json);
};

}  // namespace gdf::data

#endif  // GDF_CORE_DATA_POST_PROCESSOR_H_
