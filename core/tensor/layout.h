// Where each named tensor of a model lies in one flat float32 buffer of [num_params].
//
//   Layout layout;
//   GDF_RETURN_IF_ERROR(layout.Add("wte.weight", {65, 128}));
//   absl::Span<float> wte = layout.Slice(theta, *layout.Find("wte.weight"));
#ifndef GDF_CORE_TENSOR_LAYOUT_H_
#define GDF_CORE_TENSOR_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/base/hash.h"

namespace gdf::tensor {

// One tensor. It fills elements [offset_elems, offset_elems + num_elems) in row-major order.
struct TensorInfo {
  std::string name;
  std::vector<int64_t> shape;  // empty: a scalar, one element
  uint64_t offset_elems = 0;
  uint64_t num_elems = 0;

  friend bool operator==(const TensorInfo&, const TensorInfo&) = default;
};

// An ordered list of tensors, each starting where the one before it ends. A value type; const
// access is safe from any thread.
class Layout {
 public:
  static constexpr uint64_t kMaxElems = uint64_t{1} << 40;  // in all: 4 TiB of float32
  static constexpr size_t kMaxTensors = 1'000'000;
  static constexpr size_t kMaxNameBytes = 512;
  static constexpr size_t kMaxRank = 16;
  static constexpr size_t kMaxJsonBytes = size_t{32} << 20;

  // Appends a tensor after the last one. kInvalidArgument, and no change, when the name is empty,
  // too long, not printable ASCII or taken, a dimension is below 1, or a limit would be passed.
  absl::Status Add(std::string_view name, absl::Span<const int64_t> shape);

  const std::vector<TensorInfo>& tensors() const { return tensors_; }

  // [num_params]: elements of all tensors.
  uint64_t num_params() const { return num_params_; }

  // The tensor of that name, or null. Valid until the layout changes.
  const TensorInfo* Find(std::string_view name) const;

  // The part of a [num_params] buffer that `tensor`, one of tensors(), fills.
  template <typename T>
  absl::Span<T> Slice(absl::Span<T> flat, const TensorInfo& tensor) const {
    return flat.subspan(tensor.offset_elems, tensor.num_elems);
  }

  // {"tensors":[{"name":"wte.weight","shape":[65,128]},...]}: canonical, equal layouts give equal
  // text. Offsets follow from the order.
  std::string ToJson() const;

  // The inverse; `json` is not trusted. kInvalidArgument with the place for anything but ToJson's
  // form within the limits of Add.
  static absl::StatusOr<Layout> FromJson(std::string_view json);

  // SHA-256 of ToJson(): names, shapes and order.
  Digest digest() const;

  friend bool operator==(const Layout& a, const Layout& b) { return a.tensors_ == b.tensors_; }

 private:
  std::vector<TensorInfo> tensors_;
  std::map<std::string, size_t, std::less<>> index_;  // name -> place in tensors_
  uint64_t num_params_ = 0;
};

// Elements of `shape` (1 for a scalar). Dimensions of 0 are allowed. kInvalidArgument when a
// dimension is negative or the product passes Layout::kMaxElems.
absl::StatusOr<uint64_t> ShapeElems(absl::Span<const int64_t> shape);

}  // namespace gdf::tensor

#endif  // GDF_CORE_TENSOR_LAYOUT_H_
