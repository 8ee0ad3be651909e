// One owned, 64-byte-aligned float32 buffer: θ, a delta, a momentum, a residual.
#ifndef GDF_CORE_TENSOR_FLAT_BUFFER_H_
#define GDF_CORE_TENSOR_FLAT_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gdf::tensor {

// Move-only owner of [size()] float32. Const access is safe from any thread; writers to disjoint
// ranges need no lock.
class FlatBuffer {
 public:
  static constexpr size_t kAlignment = 64;  // bytes: a cache line, and the widest SIMD register

  static constexpr uint64_t kMaxElems = uint64_t{1} << 40;  // 4 TiB, as Layout::kMaxElems

  // [num_elems] zeros. Pages of a large buffer come when they are first written, and go back to the system with it.
  // kResourceExhausted past kMaxElems or when there is not so much memory.
  static absl::StatusOr<FlatBuffer> Zeros(uint64_t num_elems);

  FlatBuffer() = default;  // empty
  FlatBuffer(FlatBuffer&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  FlatBuffer& operator=(FlatBuffer&& other) noexcept;
  ~FlatBuffer();

  float* data() { return data_; }
  const float* data() const { return data_; }
  size_t size() const { return size_; }
  absl::Span<float> span() { return {data_, size_}; }
  absl::Span<const float> span() const { return {data_, size_}; }

 private:
  FlatBuffer(void* block, float* data, size_t size) : block_(block), data_(data), size_(size) {}

  void* block_ = nullptr;  // from calloc, where data_ lies
  float* data_ = nullptr;
  size_t size_ = 0;
};

// The bytes of `values` as they lie in memory (little-endian float32), for hashing and copying.
inline absl::Span<const uint8_t> AsBytes(absl::Span<const float> values) {
  return {reinterpret_cast<const uint8_t*>(values.data()), values.size() * sizeof(float)};
}
inline absl::Span<uint8_t> AsMutableBytes(absl::Span<float> values) {
  return {reinterpret_cast<uint8_t*>(values.data()), values.size() * sizeof(float)};
}

}  // namespace gdf::tensor

#endif  // GDF_CORE_TENSOR_FLAT_BUFFER_H_
