// Host memory as a tensor that does not own it.
#ifndef GDF_GDFD_WORKER_HOST_VIEW_H_
#define GDF_GDFD_WORKER_HOST_VIEW_H_

#include <ATen/ATen.h>

#include <cstdint>

#include "absl/types/span.h"

namespace gdf::worker {

inline at::Tensor HostView(absl::Span<float> values) {
  return at::from_blob(values.data(), {static_cast<int64_t>(values.size())}, at::kFloat);
}
inline at::Tensor HostView(absl::Span<uint8_t> bytes) {
  return at::from_blob(bytes.data(), {static_cast<int64_t>(bytes.size())}, at::kByte);
}
// To be read only, which a tensor's type cannot say.
inline at::Tensor HostView(absl::Span<const float> values) {
  return HostView(absl::Span<float>(const_cast<float*>(values.data()), values.size()));
}

}  // namespace gdf::worker

#endif  // GDF_GDFD_WORKER_HOST_VIEW_H_
