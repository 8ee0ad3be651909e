#include "core/tensor/finite.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"

namespace gdf::tensor {

bool AllFinite(absl::Span<const float> values) {
  // Integer arithmetic without an early exit, so that the loop becomes SIMD code.
  uint32_t bad = 0;
  for (const float value : values) {
    bad |= ((std::bit_cast<uint32_t>(value) & 0x7FFFFFFFu) + 0x00800000u) & 0x80000000u;
  }
  return bad == 0;
}

absl::Status CheckFinite(std::string_view what, absl::Span<const float> values) {
  if (AllFinite(values)) return absl::OkStatus();
  size_t i = 0;
  while (std::isfinite(values[i])) ++i;
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(what), ": element ", i, " of ", values.size(), " is ", values[i],
      ", expected finite numbers; lower the learning rate or clip gradients if training diverged"));
}

}  // namespace gdf::tensor
