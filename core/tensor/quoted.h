// Names from outside, made fit for an error message.
#ifndef GDF_CORE_TENSOR_QUOTED_H_
#define GDF_CORE_TENSOR_QUOTED_H_

#include <string>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace gdf::tensor {

// `name` in quotes, control characters escaped, cut to a length that people can read.
inline std::string Quoted(std::string_view name) {
  constexpr size_t kShownBytes = 64;
  const std::string shown(name.substr(0, kShownBytes));
  return absl::StrCat("\"", absl::Utf8SafeCEscape(shown),
                      name.size() > kShownBytes ? "...\"" : "\"");
}

}  // namespace gdf::tensor

#endif  // GDF_CORE_TENSOR_QUOTED_H_
