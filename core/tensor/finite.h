// Refuses NaN and infinity before they enter a round.
#ifndef GDF_CORE_TENSOR_FINITE_H_
#define GDF_CORE_TENSOR_FINITE_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace gdf::tensor {

// True when no element is NaN or infinite.
bool AllFinite(absl::Span<const float> values);

// kInvalidArgument naming `what`, and the first element that is NaN or infinite with its index.
absl::Status CheckFinite(std::string_view what, absl::Span<const float> values);

}  // namespace gdf::tensor

#endif  // GDF_CORE_TENSOR_FINITE_H_
