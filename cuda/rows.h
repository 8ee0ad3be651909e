// Rows of four values, so that a thread's loads and stores are wide, and what decoding does with them.
#ifndef GDF_CUDA_ROWS_H_
#define GDF_CUDA_ROWS_H_

#include <cstdint>

#include "core/compress/values.h"
#include "cuda/team.h"

namespace gdf::cuda {

constexpr uint32_t kRow = 4;
struct alignas(16) Row {
  float v[kRow];
};

// Of the `count` values of an item, how many are left from `begin`, up to `most`.
GDF_DEVICE inline uint32_t LeftOf(uint64_t count, uint64_t begin, uint32_t most) {
  if (begin >= count) return 0;
  return count - begin < most ? static_cast<uint32_t>(count - begin) : most;
}

// The `n` values at `from`, which is aligned to 16 bytes; the rest is zeros.
GDF_DEVICE inline Row LoadRow(const float* from, uint32_t n) {
  if (n == kRow) return *reinterpret_cast<const Row*>(from);
  Row row = {};
  for (uint32_t k = 0; k < kRow; ++k) {
    if (k < n) row.v[k] = from[k];
  }
  return row;
}

GDF_DEVICE inline void StoreRow(const Row& row, uint32_t n, float* to) {
  if (n == kRow) {
    *reinterpret_cast<Row*>(to) = row;
    return;
  }
  for (uint32_t k = 0; k < kRow; ++k) {
    if (k < n) to[k] = row.v[k];
  }
}

// Bits of the largest magnitude, kInfinityBits or more where one is NaN or infinite.
GDF_DEVICE inline int32_t LargestOf(const Row& row) {
  int32_t largest = 0;
  for (const float value : row.v) {
    const int32_t bits = compress::MagnitudeBits(value);
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

// What becomes of decoded values: they are the output, or are added to it with a weight.
struct Put {
  static constexpr bool kWritesAll = true;  // 0 where nothing was packed
  float* values;
  GDF_DEVICE void Value(uint64_t at, float value) const { values[at] = value; }
  GDF_DEVICE void Values(uint64_t at, uint32_t n, const Row& row) const { StoreRow(row, n, values + at); }
};
struct Add {
  static constexpr bool kWritesAll = false;
  float* acc;
  float weight;
  GDF_DEVICE void Value(uint64_t at, float value) const {
    acc[at] = compress::Accumulate(acc[at], weight, value);
  }
  GDF_DEVICE void Values(uint64_t at, uint32_t n, const Row& row) const {
    Row sums = LoadRow(acc + at, n);
    for (uint32_t k = 0; k < kRow; ++k) sums.v[k] = compress::Accumulate(sums.v[k], weight, row.v[k]);
    StoreRow(sums, n, acc + at);
  }
};

}  // namespace gdf::cuda

#endif  // GDF_CUDA_ROWS_H_
