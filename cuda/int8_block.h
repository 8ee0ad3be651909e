// The arithmetic of codec int8 (docs/formats/codecs.md, whose steps are numbered), as the kernels
// do it: a block is worked on by `lanes` threads, each with every lanes-th group of four values.
// The same functions compile for the CPU, where tests hold them to core/compress bit for bit.
#ifndef GDF_CUDA_INT8_BLOCK_H_
#define GDF_CUDA_INT8_BLOCK_H_

#include <cstdint>
#include <cstring>

#ifdef __CUDACC__
#define GDF_HOST_DEVICE __host__ __device__
#else
#define GDF_HOST_DEVICE
#endif

namespace gdf::cuda {

inline constexpr uint32_t kInt8ScaleBytes = 4;
inline constexpr uint32_t kInt8MinBlock = 64;
inline constexpr uint32_t kInt8MaxBlock = 4096;
inline constexpr float kInt8Levels = 127.0f;
inline constexpr float kInt8MinScale = 0x1p-126f;
inline constexpr float kInt8MaxScale = 0x1.020406p+121f;
inline constexpr int32_t kInfinityBits = 0x7F800000;
inline constexpr uint32_t kInt8Group = 4;  // values that are loaded at once

// True for the block sizes of the format.
GDF_HOST_DEVICE inline bool IsInt8Block(uint32_t block) {
  return block >= kInt8MinBlock && block <= kInt8MaxBlock && (block & (block - 1)) == 0;
}

GDF_HOST_DEVICE inline int32_t BitsOf(float value) {
  int32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

GDF_HOST_DEVICE inline float FloatOf(int32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof(value));
  return value;
}

// Four values, so that a thread's loads and stores are wide: float32 at 16 bytes, levels at 4.
struct alignas(16) Int8Values {
  float v[kInt8Group];
};
struct alignas(4) Int8Levels {
  int8_t v[kInt8Group];
};

// Calls use(i, n) for this lane's groups of a block of `count` values: values [i, i + n), where n
// is 4 but for the last group.
template <typename Use>
GDF_HOST_DEVICE inline void ForLane(uint32_t count, uint32_t lane, uint32_t lanes, Use use) {
  for (uint32_t i = lane * kInt8Group; i < count; i += lanes * kInt8Group) {
    use(i, count - i < kInt8Group ? count - i : kInt8Group);
  }
}

// The next `n` of at most four values; the rest is zeros.
GDF_HOST_DEVICE inline Int8Values LoadValues(const float* from, uint32_t n) {
  if (n == kInt8Group) return *reinterpret_cast<const Int8Values*>(from);
  Int8Values values = {};
  for (uint32_t k = 0; k < n; ++k) values.v[k] = from[k];
  return values;
}

GDF_HOST_DEVICE inline Int8Levels LoadLevels(const int8_t* from, uint32_t n) {
  if (n == kInt8Group) return *reinterpret_cast<const Int8Levels*>(from);
  Int8Levels levels = {};
  for (uint32_t k = 0; k < n; ++k) levels.v[k] = from[k];
  return levels;
}

// Step 1, this lane's part: the bits of the largest magnitude, which order like the magnitudes. At
// least kInfinityBits when a value is NaN or infinite.
GDF_HOST_DEVICE inline int32_t LaneMaxBits(const float* in, uint32_t count, uint32_t lane,
                                           uint32_t lanes) {
  int32_t max_bits = 0;
  ForLane(count, lane, lanes, [&](uint32_t i, uint32_t n) {
    const Int8Values values = LoadValues(in + i, n);
    for (uint32_t k = 0; k < kInt8Group; ++k) {
      const int32_t magnitude = BitsOf(values.v[k]) & 0x7FFFFFFF;
      max_bits = magnitude > max_bits ? magnitude : max_bits;
    }
  });
  return max_bits;
}

// Step 2.
GDF_HOST_DEVICE inline float Int8Scale(int32_t max_bits) {
  if (max_bits == 0) return 0.0f;
  const float scale = FloatOf(max_bits) / kInt8Levels;
  if (scale < kInt8MinScale) return kInt8MinScale;
  return scale > kInt8MaxScale ? kInt8MaxScale : scale;
}

// Step 3; 0 for a block of zeros.
GDF_HOST_DEVICE inline float Int8Inverse(float scale) {
  return scale == 0.0f ? 0.0f : 1.0f / scale;
}

// Step 4. Adding 1.5 * 2^23 leaves the integer in the low bits of the sum, rounded to nearest even
// by the addition itself.
GDF_HOST_DEVICE inline int8_t Int8Level(float value, float inverse) {
  constexpr float kShift = 0x1.8p23f;
  float level = value * inverse;
  if (level < -kInt8Levels) level = -kInt8Levels;
  if (level > kInt8Levels) level = kInt8Levels;
  return static_cast<int8_t>(BitsOf(level + kShift) - BitsOf(kShift));
}

// This lane's levels of a block, to `out`.
GDF_HOST_DEVICE inline void LaneEncode(const float* in, uint32_t count, float inverse,
                                       uint32_t lane, uint32_t lanes, int8_t* out) {
  ForLane(count, lane, lanes, [&](uint32_t i, uint32_t n) {
    const Int8Values values = LoadValues(in + i, n);
    Int8Levels levels;
    for (uint32_t k = 0; k < kInt8Group; ++k) levels.v[k] = Int8Level(values.v[k], inverse);
    if (n == kInt8Group) {
      *reinterpret_cast<Int8Levels*>(out + i) = levels;
    } else {
      for (uint32_t k = 0; k < n; ++k) out[i + k] = levels.v[k];
    }
  });
}

// False for a scale that no encoder writes; -0 is one.
GDF_HOST_DEVICE inline bool IsInt8Scale(float scale) {
  return BitsOf(scale) == 0 || (scale >= kInt8MinScale && scale <= kInt8MaxScale);
}

// This lane's values of a block, to `out`. False when one of its levels is -128.
GDF_HOST_DEVICE inline bool LaneDecode(const int8_t* in, uint32_t count, float scale, uint32_t lane,
                                       uint32_t lanes, float* out) {
  bool good = true;
  ForLane(count, lane, lanes, [&](uint32_t i, uint32_t n) {
    const Int8Levels levels = LoadLevels(in + i, n);
    Int8Values values;
    for (uint32_t k = 0; k < kInt8Group; ++k) {
      good &= levels.v[k] != INT8_MIN;
      values.v[k] = scale * static_cast<float>(levels.v[k]);
    }
    if (n == kInt8Group) {
      *reinterpret_cast<Int8Values*>(out + i) = values;
    } else {
      for (uint32_t k = 0; k < n; ++k) out[i + k] = values.v[k];
    }
  });
  return good;
}

// Where the block that begins at value `begin` begins in the packed bytes.
GDF_HOST_DEVICE inline uint64_t Int8PackedBegin(uint64_t begin, uint32_t block) {
  return begin + begin / block * kInt8ScaleBytes;
}

// The first block that is refused, as one number of which the smallest wins: its begin times two,
// plus one when its scale is good and a level is not. kNothingRefused: none.
inline constexpr uint64_t kNothingRefused = UINT64_MAX;
GDF_HOST_DEVICE inline uint64_t Refusal(uint64_t begin, bool of_level) {
  return begin * 2 + (of_level ? 1 : 0);
}

}  // namespace gdf::cuda

#endif  // GDF_CUDA_INT8_BLOCK_H_
