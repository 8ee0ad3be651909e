#include "core/tensor/flat_buffer.h"

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"

namespace gdf::tensor {

// calloc, since it knows which memory the system has just zeroed.
absl::StatusOr<FlatBuffer> FlatBuffer::Zeros(uint64_t num_elems) {
  if (num_elems == 0) return FlatBuffer();
  const size_t bytes = std::min(num_elems, kMaxElems) * sizeof(float);
  size_t room = bytes + kAlignment;
  void* block = num_elems <= kMaxElems ? std::calloc(room, 1) : nullptr;
  if (block == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for a buffer of ", num_elems,
                                                     " float32 (", num_elems / (uint64_t{1} << 28),
                                                     " GiB); free memory or use a smaller model"));
  }
  void* data = block;
  std::align(kAlignment, bytes, data, room);
  return FlatBuffer(block, static_cast<float*>(data), num_elems);
}

FlatBuffer& FlatBuffer::operator=(FlatBuffer&& other) noexcept {
  std::swap(block_, other.block_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

FlatBuffer::~FlatBuffer() { std::free(block_); }

}  // namespace gdf::tensor
