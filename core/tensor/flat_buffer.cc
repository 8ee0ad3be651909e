#include "core/tensor/flat_buffer.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "absl/strings/str_cat.h"

namespace gdf::tensor {

absl::StatusOr<FlatBuffer> FlatBuffer::Zeros(uint64_t num_elems) {
  if (num_elems == 0) return FlatBuffer();
  float* data = nullptr;
  if (num_elems <= kMaxElems) {
    data = static_cast<float*>(
        ::operator new (num_elems * sizeof(float), std::align_val_t{kAlignment}, std::nothrow));
  }
  if (data == nullptr) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for a buffer of ", num_elems,
                                                     " float32 (", num_elems / (uint64_t{1} << 28),
                                                     " GiB); free memory or use a smaller model"));
  }
  std::memset(data, 0, num_elems * sizeof(float));
  return FlatBuffer(data, num_elems);
}

FlatBuffer& FlatBuffer::operator=(FlatBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

FlatBuffer::~FlatBuffer() { ::operator delete (data_, std::align_val_t{kAlignment}); }

}  // namespace gdf::tensor
