// One value to its code and back, as docs/formats/codecs.md numbers the operations: what every loop,
// scalar or SIMD, and every kernel of a GPU does to each value. Plain arithmetic, so that a compiler can
// vectorise it, and constexpr, so that it can be device code.
#ifndef GDF_CORE_COMPRESS_VALUES_H_
#define GDF_CORE_COMPRESS_VALUES_H_

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace gdf::compress {

constexpr uint32_t kSignBit = 0x80000000u;
constexpr uint32_t kMagnitudeMask = 0x7FFFFFFFu;
constexpr int32_t kInfinityBits = 0x7F800000;

// Bits of |value|. Magnitudes order like their bits, so these compare as integers.
constexpr int32_t MagnitudeBits(float value) {
  return static_cast<int32_t>(std::bit_cast<uint32_t>(value) & kMagnitudeMask);
}

// Not 0 when the float32 of these bits is NaN or infinite.
constexpr uint32_t NotFinite(uint32_t bits) {
  return ((bits & kMagnitudeMask) + 0x00800000u) & kSignBit;
}

// --- Words: a value each, without a scale ---

// Values as they are.
struct Fp32Word {
  using Word = uint32_t;
  static constexpr Word FromFloat(float value) { return std::bit_cast<uint32_t>(value); }
  static constexpr uint32_t ToBits(Word word) { return word; }
};

// The upper half of a float32. Finite values past the largest bfloat16 become that, not infinity;
// all others become infinity, which decoding refuses.
struct Bf16Word {
  using Word = uint16_t;
  static constexpr int32_t kLargest = 0x7F7F0000;
  static constexpr Word FromFloat(float value) {
    const int32_t magnitude = MagnitudeBits(value);
    const int32_t finite = std::min(magnitude, kLargest);
    const auto kept = static_cast<uint32_t>(magnitude < kInfinityBits ? finite : kInfinityBits);
    const uint32_t rounded = kept + 0x7FFFu + ((kept >> 16) & 1u);
    return static_cast<Word>((rounded | (std::bit_cast<uint32_t>(value) & kSignBit)) >> 16);
  }
  static constexpr uint32_t ToBits(Word word) { return uint32_t{word} << 16; }
};

// IEEE 754 binary16; ends of the range as for bfloat16.
struct Fp16Word {
  using Word = uint16_t;
  static constexpr int32_t kLargest = 0x477FE000;         // 65504
  static constexpr int32_t kLeastNormal = 113 << 23;      // 2^-14
  static constexpr uint32_t kRebias = (127 - 15) << 23;   // between the exponents' biases
  static constexpr uint32_t kInfinity = 0x7C00;
  static constexpr Word FromFloat(float value) {
    const int32_t magnitude = MagnitudeBits(value);
    const int32_t finite = std::min(magnitude, kLargest);
    const auto kept = static_cast<uint32_t>(finite);
    const uint32_t normal = (kept - kRebias + 0xFFFu + ((kept >> 13) & 1u)) >> 13;
    // The unit of a float32 at 0.5 is 2^-24, the least binary16: the addition rounds to it.
    const uint32_t subnormal = std::bit_cast<uint32_t>(std::bit_cast<float>(kept) + 0.5f) -
                               std::bit_cast<uint32_t>(0.5f);
    const uint32_t rounded = finite < kLeastNormal ? subnormal : normal;
    const uint32_t sign = (std::bit_cast<uint32_t>(value) & kSignBit) >> 16;
    return static_cast<Word>((magnitude < kInfinityBits ? rounded : kInfinity) | sign);
  }
  static constexpr uint32_t ToBits(Word word) {
    const uint32_t magnitude = uint32_t{word} & 0x7FFFu;
    const uint32_t wide = magnitude << 13;
    const uint32_t normal = wide + kRebias;
    // mantissa * 2^-24, by the unit of a float32 at 2^-14
    const float least = std::bit_cast<float>(kLeastNormal);
    const uint32_t subnormal = std::bit_cast<uint32_t>(
        std::bit_cast<float>(wide + static_cast<uint32_t>(kLeastNormal)) - least);
    const uint32_t finite = magnitude < 0x0400u ? subnormal : normal;
    const uint32_t bits =
        magnitude < kInfinity ? finite : static_cast<uint32_t>(kInfinityBits);
    return bits | (uint32_t{word} & 0x8000u) << 16;
  }
};

// --- Codes: a few bits a value, times the scale of their block ---
// kLevels is the largest value that a code stands for, kMaxScale the largest scale whose product with it is finite.

// Nearest integer, ties to even, of |value| <= 2^21 (anything for a NaN). Adding 1.5 * 2^23 leaves
// the integer in the low bits of the sum, rounded by the addition itself.
constexpr float kRoundShift = 0x1.8p23f;
constexpr int32_t RoundToEven(float value) {
  return std::bit_cast<int32_t>(value + kRoundShift) - std::bit_cast<int32_t>(kRoundShift);
}

// Signed integers of kBits bits from -kLevels to kLevels.
template <int kBitsIn>
struct IntCode {
  static constexpr int kBits = kBitsIn;
  static constexpr float kLevels = (1 << (kBits - 1)) - 1;
  static_assert(kBits == 8 || kBits == 4);
  static constexpr float kMaxScale = kBits == 8 ? 0x1.020406p+121f : 0x1.249248p+125f;
  static constexpr uint32_t kUnused = 1u << (kBits - 1);  // -kLevels - 1
  static constexpr uint32_t FromFloat(float value, float inverse) {
    const float level = std::clamp(value * inverse, -kLevels, kLevels);
    return static_cast<uint32_t>(RoundToEven(level)) & ((1u << kBits) - 1u);
  }
  // Or to the integer on the other side, with the distance to the nearest one as probability, by a
  // random word: 23 of its bits, so that no operation rounds.
  static constexpr uint32_t FromFloat(float value, float inverse, uint32_t word) {
    const float level = std::clamp(value * inverse, -kLevels, kLevels);
    const int32_t nearest = RoundToEven(level);
    const float rest = level - static_cast<float>(nearest);
    const bool moves = static_cast<float>(word >> 9) + 0.5f < std::abs(rest) * 0x1p23f;
    const int32_t rounded = nearest + (moves ? (rest < 0.0f ? -1 : 1) : 0);
    return static_cast<uint32_t>(rounded) & ((1u << kBits) - 1u);
  }
  // Of a code that is not kUnused.
  static constexpr float ToFloat(uint32_t code) {
    const uint32_t sign = 1u << (kBits - 1);
    return static_cast<float>(static_cast<int32_t>(code ^ sign) - static_cast<int32_t>(sign));
  }
};

// Twice the value of a code of 4 bits.
constexpr int32_t TwiceFp4(uint32_t code) {
  constexpr uint32_t kMagnitudes = 0xC8643210u;  // four bits for each index
  const auto magnitude = static_cast<int32_t>(kMagnitudes >> code % 8 * 4 & 15u);
  return code < 8 ? magnitude : -magnitude;
}

// E2M1 of the OCP Microscaling Formats: 0, 0.5, 1, 1.5, 2, 3, 4 and 6 with a sign in bit 3; zero
// has none.
struct Fp4Code {
  static constexpr int kBits = 4;
  static constexpr float kLevels = 6.0f;
  static constexpr float kMaxScale = 0x1.555554p+125f;
  static constexpr uint32_t kUnused = 8u;  // -0
  static constexpr uint32_t FromFloat(float value, float inverse) {
    const float level = std::min(std::abs(value * inverse), kLevels);
    // Units of 0.5 below 2, of 1 below 4, of 2 above, so that the index grows by one a unit.
    const float per_unit = level < 2.0f ? 2.0f : level < 4.0f ? 1.0f : 0.5f;
    const int32_t offset = level < 2.0f ? 0 : level < 4.0f ? 2 : 4;
    const auto index = static_cast<uint32_t>(RoundToEven(level * per_unit) + offset);
    const uint32_t sign = std::bit_cast<uint32_t>(value) >> 31;
    return index == 0 ? 0u : index | sign << 3;
  }
  static constexpr float ToFloat(uint32_t code) { return 0.5f * static_cast<float>(TwiceFp4(code)); }
};

// --- Scales of blocks ---

// A scale is never subnormal, so that its reciprocal is finite and no flush-to-zero mode matters.
constexpr float kMinScale = 0x1p-126f;

// So that `levels` times it is the largest magnitude of the block.
constexpr float ScaleFor(float max_abs, float levels, float max_scale) {
  return max_abs == 0.0f ? 0.0f : std::clamp(max_abs / levels, kMinScale, max_scale);
}

// What values are multiplied with.
constexpr float InverseOf(float scale) { return scale == 0.0f ? 0.0f : 1.0f / scale; }

constexpr bool IsScale(float scale, float max_scale) {
  return std::bit_cast<uint32_t>(scale) == 0 || (scale >= kMinScale && scale <= max_scale);
}

// Values are summed in this many running sums, value i in sum i % kSums; then sum j + kSums / 2 is added to sum j, and
// so on down. Magnitudes in units of kSumUnit, so that no sum of a block overflows.
constexpr size_t kSums = 16;
constexpr float kSumUnit = 0x1p-12f;
constexpr float AddUp(float* sums) {
  for (size_t half = kSums / 2; half > 0; half /= 2) {
    for (size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return sums[0];
}

// The scale of signs, of `count` magnitudes that sum to `sum` units.
constexpr float MeanOf(float sum, size_t count) {
  const float mean = std::min(sum * (1.0f / kSumUnit / static_cast<float>(count)), FLT_MAX);
  return mean < kMinScale ? 0.0f : mean;
}

using Int8Code = IntCode<8>;
using Int4Code = IntCode<4>;

// acc = acc + weight * value, both rounded.
constexpr float Accumulate(float acc, float weight, float value) {
  const float product = weight * value;
  return acc + product;
}

}  // namespace gdf::compress

#endif  // GDF_CORE_COMPRESS_VALUES_H_
