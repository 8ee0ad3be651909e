// Codec sign: half a warp to a block, a thread to each of the sums that the format has, eight values a thread for the bits.
#ifndef GDF_CUDA_SIGNS_H_
#define GDF_CUDA_SIGNS_H_

#include "cuda/blocks.h"

namespace gdf::cuda {

constexpr uint32_t kSignsOfByte = 8;

struct SignItems : BlockItems {
  static constexpr uint32_t kThreads = compress::kSums;
  struct Shared {
    float sums[kThreads];
  };
  constexpr uint32_t team_size() const { return kThreads; }
};

struct EncodeSigns : SignItems {
  const float* values;
  uint8_t* packed;
  Refused refused;

  template <typename Team>
  GDF_DEVICE void operator()(Team& team, Shared& shared, uint64_t item) const {
    const uint64_t begin = item * block;
    const uint32_t count = CountOf(item);
    const float* in = values + begin;
    uint8_t* out = packed + item * packed_block;
    const int32_t largest = team.Max([&](uint32_t thread) {
      float sum = 0.0f;
      int32_t most = 0;
      for (uint32_t i = thread; i < count; i += kThreads) {
        const int32_t bits = compress::MagnitudeBits(in[i]);
        sum += std::bit_cast<float>(bits) * compress::kSumUnit;
        most = bits > most ? bits : most;
      }
      shared.sums[thread] = sum;
      return most;
    });
    team.Each([&](uint32_t thread) {
      for (uint32_t byte = thread; byte * kSignsOfByte < count; byte += kThreads) {
        uint32_t bits = 0;
        for (uint32_t half = 0; half < kSignsOfByte; half += kRow) {
          const uint32_t at = byte * kSignsOfByte + half;
          const Row row = LoadRow(in + at, LeftOf(count, at, kRow));
          for (uint32_t k = 0; k < kRow; ++k) bits |= std::bit_cast<uint32_t>(row.v[k]) >> 31 << (half + k);
        }
        out[kScaleBytes + byte] = static_cast<uint8_t>(bits);
      }
      if (thread != 0 || count == 0) return;
      *reinterpret_cast<float*>(out) = compress::MeanOf(compress::AddUp(shared.sums), count);
      if (largest >= compress::kInfinityBits) refused.Note(begin);
    });
  }
};

template <typename Use>
struct DecodeSigns : SignItems {
  const uint8_t* packed;
  Use use;
  Refused refused;

  template <typename Team>
  GDF_DEVICE void operator()(Team& team, Shared&, uint64_t item) const {
    const uint64_t begin = item * block;
    const uint32_t count = CountOf(item);
    const uint8_t* in = packed + item * packed_block;
    const float scale = count > 0 ? *reinterpret_cast<const float*>(in) : 0.0f;
    team.Each([&](uint32_t thread) {
      bool bad = thread == 0 && !compress::IsScale(scale, FLT_MAX);
      for (uint32_t byte = thread; byte * kSignsOfByte < count; byte += kThreads) {
        const uint32_t at = byte * kSignsOfByte;
        const uint32_t n = LeftOf(count, at, kSignsOfByte);
        const uint32_t bits = in[kScaleBytes + byte];
        bad |= bits >> n != 0;
        for (uint32_t half = 0; half < n; half += kRow) {
          Row row;
          for (uint32_t k = 0; k < kRow; ++k) row.v[k] = (bits >> (half + k) & 1u) != 0 ? -scale : scale;
          use.Values(begin + at + half, LeftOf(n, half, kRow), row);
        }
      }
      if (bad) refused.Note(begin);
    });
  }
};

}  // namespace gdf::cuda

#endif  // GDF_CUDA_SIGNS_H_
