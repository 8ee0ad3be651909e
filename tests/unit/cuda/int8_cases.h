// Values that codec int8 must treat alike on every device, and its lanes run one after the other.
#ifndef GDF_TESTS_UNIT_CUDA_INT8_CASES_H_
#define GDF_TESTS_UNIT_CUDA_INT8_CASES_H_

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cuda/int8_block.h"

namespace gdf::cuda {

struct Int8Case {
  std::string name;
  std::vector<float> values;
};

// Finite values, `n` in each case: of one magnitude, of any bits, subnormal, zero, at the limits of
// the scale, and halfway between two levels.
inline std::vector<Int8Case> FiniteCases(size_t n, uint32_t seed) {
  std::mt19937 random(seed);  // whose output is fixed by the C++ standard
  const auto fill = [&](auto draw) {
    std::vector<float> values(n);
    for (float& value : values) value = draw();
    return values;
  };
  const auto of_bits = [&](uint32_t mask) {
    return [&random, mask] {
      while (true) {
        const float value = FloatOf(static_cast<int32_t>(static_cast<uint32_t>(random()) & mask));
        if (std::isfinite(value)) return value;
      }
    };
  };
  const auto one_of = [&](std::vector<float> values) {
    return [&random, values] { return values[random() % values.size()]; };
  };
  constexpr float kDenorm = std::numeric_limits<float>::denorm_min();
  return {
      {"one magnitude",
       fill([&] { return static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f; })},
      {"any bits", fill(of_bits(0xFFFFFFFFu))},
      {"small bits", fill(of_bits(0x83FFFFFFu))},
      {"subnormal", fill(of_bits(0x807FFFFFu))},
      {"zeros", fill(one_of({0.0f, -0.0f}))},
      {"few values", fill(one_of({0.0f, -0.0f, kDenorm, -kDenorm, FLT_MIN, -FLT_MIN}))},
      {"large", fill(one_of({FLT_MAX, -FLT_MAX, 0x1.fcp+127f, 1.0f, -FLT_MIN}))},
      {"at the largest scale", fill(one_of({0x1.020406p+121f * 127.0f, 0x1.02p+121f, -1e30f}))},
      {"at the smallest scale", fill(one_of({FLT_MIN * 127.0f, -FLT_MIN * 63.5f, FLT_MIN * 0.5f}))},
      {"halfway", fill(one_of({127.0f, 0.5f, -0.5f, 1.5f, 2.5f, -2.5f, 62.5f, 63.5f, -126.5f}))},
      {"one sign", fill([&] { return -1.0f - static_cast<float>(random() % 1000) * 1e-6f; })},
  };
}

// Encodes as a warp of `lanes` threads does. Returns the refusal of int8_block.h.
inline uint64_t EncodeInLanes(const float* values, uint64_t num_values, uint32_t block,
                              uint32_t lanes, uint8_t* packed) {
  uint64_t refused = kNothingRefused;
  for (uint64_t begin = 0; begin < num_values; begin += block) {
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(block, num_values - begin));
    uint8_t* out = packed + Int8PackedBegin(begin, block);
    int32_t max_bits = 0;
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      max_bits = std::max(max_bits, LaneMaxBits(values + begin, count, lane, lanes));
    }
    if (max_bits >= kInfinityBits) refused = std::min(refused, Refusal(begin, true));
    const float scale = Int8Scale(max_bits);
    std::memcpy(out, &scale, kInt8ScaleBytes);
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      LaneEncode(values + begin, count, Int8Inverse(scale), lane, lanes,
                 reinterpret_cast<int8_t*>(out + kInt8ScaleBytes));
    }
  }
  return refused;
}

inline uint64_t DecodeInLanes(const uint8_t* packed, uint64_t num_values, uint32_t block,
                              uint32_t lanes, float* values) {
  uint64_t refused = kNothingRefused;
  for (uint64_t begin = 0; begin < num_values; begin += block) {
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(block, num_values - begin));
    const uint8_t* in = packed + Int8PackedBegin(begin, block);
    float scale;
    std::memcpy(&scale, in, kInt8ScaleBytes);
    if (!IsInt8Scale(scale)) refused = std::min(refused, Refusal(begin, false));
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      if (!LaneDecode(reinterpret_cast<const int8_t*>(in + kInt8ScaleBytes), count, scale, lane,
                      lanes, values + begin)) {
        refused = std::min(refused, Refusal(begin, true));
      }
    }
  }
  return refused;
}

}  // namespace gdf::cuda

#endif  // GDF_TESTS_UNIT_CUDA_INT8_CASES_H_
