// What a chunk of a top-k codec consists of: levels, of which each code is one, and where its parts lie. See
// docs/formats/codecs.md. Internal to compress and to the kernels of GPUs, so constexpr.
#ifndef GDF_CORE_COMPRESS_TOPK_H_
#define GDF_CORE_COMPRESS_TOPK_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/compress/bits.h"
#include "core/compress/values.h"

namespace gdf::compress {

constexpr size_t kTopKChunk = 4096;  // values of which k are kept
constexpr size_t kMaxTopK = 1024;
constexpr size_t kLevelBytes = 4;  // what the codes are multiples of, or stand for

// Two bits a value: the sign, and which of two magnitudes, both bfloat16.
struct TwoLevels {
  static constexpr size_t kBits = 2;

  // Of the values that are kept. Splits the magnitudes in the middle of their range and takes the mean of
  // either part.
  static constexpr TwoLevels Of(const float* kept, size_t count) {
    float least = std::abs(kept[0]), most = least;
    for (size_t i = 1; i < count; ++i) {
      least = std::min(least, std::abs(kept[i]));
      most = std::max(most, std::abs(kept[i]));
    }
    const float middle = 0.5f * least + 0.5f * most;
    double sums[2] = {};
    size_t counts[2] = {};
    for (size_t i = 0; i < count; ++i) {
      const float magnitude = std::abs(kept[i]);
      const size_t which = magnitude > middle ? 1 : 0;
      sums[which] += double{magnitude};
      ++counts[which];
    }
    // Half of an odd subnormal rounds, so that there may be none up to the middle either.
    const size_t low = counts[0] > 0 ? 0 : 1, high = counts[1] > 0 ? 1 : 0;
    return {{Mean(sums[low], counts[low]), Mean(sums[high], counts[high])}, middle};
  }
  static constexpr uint16_t Mean(double sum, size_t count) {
    return Bf16Word::FromFloat(static_cast<float>(sum / static_cast<double>(count)));
  }
  constexpr uint32_t Bits() const { return words[0] | uint32_t{words[1]} << 16; }
  static constexpr TwoLevels FromBits(uint32_t bits) {
    return {{static_cast<uint16_t>(bits), static_cast<uint16_t>(bits >> 16)}, 0.0f};
  }
  // Whether both are finite, not negative and in order.
  constexpr bool IsGood() const { return words[0] <= words[1] && words[1] < (kInfinityBits >> 16); }
  constexpr uint32_t Code(float value) const {
    return (std::abs(value) > middle ? 1u : 0u) | (value < 0.0f ? 2u : 0u);
  }
  constexpr bool Known(uint32_t) const { return true; }
  constexpr float Value(uint32_t code) const {
    const float magnitude = std::bit_cast<float>(Bf16Word::ToBits(words[code & 1u]));
    return (code & 2u) != 0 ? -magnitude : magnitude;
  }

  uint16_t words[2];
  float middle;  // of the encoder only
};

// As int8, the chunk being the block.
struct Int8Levels {
  static constexpr size_t kBits = 8;

  static constexpr Int8Levels Of(const float* kept, size_t count) {
    float most = 0.0f;
    for (size_t i = 0; i < count; ++i) most = std::max(most, std::abs(kept[i]));
    return {ScaleFor(most, Int8Code::kLevels, Int8Code::kMaxScale)};
  }
  constexpr uint32_t Bits() const { return std::bit_cast<uint32_t>(scale); }
  static constexpr Int8Levels FromBits(uint32_t bits) { return {std::bit_cast<float>(bits)}; }
  constexpr bool IsGood() const { return IsScale(scale, Int8Code::kMaxScale); }
  constexpr uint32_t Code(float value) const {
    return Int8Code::FromFloat(value, InverseOf(scale));
  }
  constexpr bool Known(uint32_t code) const { return code != Int8Code::kUnused; }
  constexpr float Value(uint32_t code) const { return scale * Int8Code::ToFloat(code); }

  float scale;
};

// Where the parts of a chunk of `values` values lie, of which `kept` are kept: levels, codes, then
// the indices as Elias and Fano code them: the low bits of each, and a bitmap in which the i-th one
// stands at (index >> low_bits) + i.
struct Layout {
  constexpr Layout(size_t values_in, size_t k, size_t code_bits)
      : values(values_in),
        kept(k < values_in ? k : values_in),
        low_bits(static_cast<size_t>(std::bit_width(kTopKChunk / k) - 1)),
        high_bits(kept + ((values - 1) >> low_bits) + 1),
        lows(kLevelBytes + BytesOfBits(kept * code_bits)),
        highs(lows + BytesOfBits(kept * low_bits)),
        bytes(highs + BytesOfBits(high_bits)) {}

  size_t values, kept;
  size_t low_bits, high_bits;  // of an index, of the bitmap
  size_t lows, highs, bytes;   // offsets, and the whole
};

}  // namespace gdf::compress

#endif  // GDF_CORE_COMPRESS_TOPK_H_
