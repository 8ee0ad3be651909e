// links: gdf_data
// A tokenizer.json from a stranger: parsed, and where that works, used on its own bytes as text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.h"
#include "core/data/tokenizer.h"
#include "core/data/utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = gdf::data::ParseTokenizer(bytes);
  if (!tokenizer.ok()) return 0;
  constexpr size_t kTextBytes = 512;
  const auto ids = (*tokenizer)->Encode(bytes.substr(0, kTextBytes), gdf::data::AddSpecial::kYes);
  if (!ids.ok()) return 0;
  for (const int32_t id : *ids) GDF_CHECK(id >= 0);
  const std::string text = (*tokenizer)->Decode(*ids);
  GDF_CHECK(gdf::data::CheckUtf8(text).ok());
  GDF_CHECK(gdf::data::ParseTokenizer((*tokenizer)->Serialize(), (*tokenizer)->Config()).ok());
  return 0;
}
