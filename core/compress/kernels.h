// The loops of the codecs over many values: in scalar form, which says what the bytes are, and in
// SIMD form for each instruction set of this processor, with the same bytes. Internal to compress.
#ifndef GDF_CORE_COMPRESS_KERNELS_H_
#define GDF_CORE_COMPRESS_KERNELS_H_

#include <cstddef>
#include <cstdint>

namespace gdf::compress {

// Loops over `count` values without a scale. Those that decode return false when a value is one that
// encoding a finite value never gives; what they wrote is then of no use.
struct WordLoops {
  void (*encode)(const float* in, size_t count, uint8_t* out);
  bool (*decode)(const uint8_t* in, size_t count, float* out);
  bool (*accumulate)(const uint8_t* in, size_t count, float weight, float* acc);  // += weight * value
};

// Loops over the `count` values of one block, `scale` apart; `inverse` is 1 / scale. Codes of 4 bits
// lie two a byte, the earlier one in its lower half; a last half byte is zero.
struct CodeLoops {
  void (*encode)(const float* in, size_t count, float inverse, uint8_t* out);
  bool (*decode)(const uint8_t* in, size_t count, float scale, float* out);
  bool (*accumulate)(const uint8_t* in, size_t count, float scale, float weight, float* acc);
};

// CodeLoops::encode with stochastic rounding, of at most kRandomGroup values by a random word each.
using EncodeStochastic = void (*)(const float* in, size_t count, float inverse, const uint32_t* words, uint8_t* out);

constexpr size_t kMaxSelect = 4096;

struct Kernels {
  const char* name;  // "scalar", "AVX2", ...
  int32_t (*max_magnitude)(const float* in, size_t count);  // the largest MagnitudeBits
  WordLoops fp32, bf16, fp16;
  CodeLoops int8, int4, fp4;
  float (*sum_magnitudes)(const float* in, size_t count);  // in units of kSumUnit
  float (*dot)(const float* a, const float* b, size_t count);  // the sum of products
  CodeLoops sign;  // a bit a value, set for a negative one; bits that are left over are zero
  // Writes the indices of the `k` largest magnitudes of `count` values, ascending; of equal ones the
  // earlier are taken. 0 < k <= count <= kMaxSelect.
  void (*select)(const float* in, size_t count, size_t k, uint16_t* indices);
  void (*random)(uint64_t seed, uint64_t group, uint32_t* words);  // the words of a group of values: philox.h
  EncodeStochastic int8_stochastic, int4_stochastic;
  // Of each chunk of kDctSize values, limited to kDctLimit, the `k` largest coefficients of the DCT-II, at most half
  // of them, and their indices, chosen as by select; and the sums that `k` coefficients a chunk stand for.
  void (*largest_of_dct)(const float* in, size_t chunks, size_t k, float* values, uint8_t* indices);
  void (*inverse_dct)(const float* coefficients, const uint8_t* indices, size_t chunks, size_t k, float* out);
};

const Kernels& ScalarKernels();

// For the best instruction set that this processor has, as Highway finds it.
const Kernels& SimdKernels();

}  // namespace gdf::compress

#endif  // GDF_CORE_COMPRESS_KERNELS_H_
