#include "core/train/fragments.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gdf::train {
namespace {

uint64_t Units(uint64_t num_params) { return num_params / Fragments::kUnit + (num_params % Fragments::kUnit != 0); }

}  // namespace

absl::StatusOr<Fragments> Fragments::Create(uint64_t num_params, uint64_t count) {
  const uint64_t most = std::max<uint64_t>(Units(num_params), 1);
  if (count >= 1 && count <= most) return Fragments(num_params, count);
  return absl::InvalidArgumentError(absl::StrCat(num_params, " parameters in ", count, " fragments, expected 1 to ", most,
                                                 " of ", kUnit, " or more"));
}

uint64_t Fragments::begin(uint64_t fragment) const {
  const uint64_t units = Units(num_params_);
  // fragment * units / count, without its overflow.
  const uint64_t before = units / count_ * fragment + units % count_ * fragment / count_;
  return std::min(before * kUnit, num_params_);
}

}  // namespace gdf::train
