// Codecs, and values that they must treat alike on every device.
#ifndef GDF_TESTS_UNIT_CUDA_CASES_H_
#define GDF_TESTS_UNIT_CUDA_CASES_H_

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/compress/codec.h"

namespace gdf::cuda {

// Every kind, with the ends of its options.
inline constexpr const char* kCodecs[] = {
    "fp32", "bf16", "fp16", "int8:64", "int8:128", "int8:256", "int8:1024", "int8:4096",
    "int8:64:stochastic", "int8:256:stochastic", "int8:4096:stochastic", "int4:64", "int4:128", "int4:512", "int4:4096",
    "int4:64:stochastic", "int4:2048:stochastic", "fp4:64", "fp4:256", "fp4:4096",
    "sign:64", "sign:1024", "sign:4096", "topk2:1", "topk2:64", "topk2:1000", "topk8:3", "topk8:64", "topk8:1024", "dct:1",
    "dct:4", "dct:7", "dct:32"};

inline std::unique_ptr<compress::Codec> CodecOf(const std::string& name) {
  return *compress::Codec::Create(*compress::CodecSpec::Parse(name));
}

// `n` values between -1 and 1.
inline std::vector<float> OneMagnitude(size_t n, std::mt19937& random) {
  std::vector<float> values(n);
  for (float& value : values) value = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f;
  return values;
}

struct Case {
  std::string name;
  std::vector<float> values;
};

// Finite values, `n` in each case: of one magnitude, of any bits, subnormal, zero, at the limits of
// scales, halfway between two codes, and equal ones.
inline std::vector<Case> FiniteCases(size_t n, uint32_t seed) {
  std::mt19937 random(seed);  // whose output is fixed by the C++ standard
  const auto fill = [&](auto draw) {
    std::vector<float> values(n);
    for (float& value : values) value = draw();
    return values;
  };
  const auto of_bits = [&](uint32_t mask) {
    return [&random, mask] {
      while (true) {
        const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()) & mask);
        if (std::isfinite(value)) return value;
      }
    };
  };
  const auto one_of = [&](std::vector<float> values) {
    return [&random, values] { return values[random() % values.size()]; };
  };
  constexpr float kDenorm = std::numeric_limits<float>::denorm_min();
  return {
      {"one magnitude", OneMagnitude(n, random)},
      {"any bits", fill(of_bits(0xFFFFFFFFu))},
      {"small bits", fill(of_bits(0x83FFFFFFu))},
      {"subnormal", fill(of_bits(0x807FFFFFu))},
      {"zeros", fill(one_of({0.0f, -0.0f}))},
      {"few values", fill(one_of({0.0f, -0.0f, kDenorm, -kDenorm, FLT_MIN, -FLT_MIN}))},
      {"large", fill(one_of({FLT_MAX, -FLT_MAX, 0x1.fcp+127f, 1.0f, -FLT_MIN}))},
      {"at the largest scales", fill(one_of({0x1.020406p+121f * 127.0f, 0x1.249248p+125f * 7.0f, 0x1.02p+121f, -1e30f}))},
      {"at the smallest scales", fill(one_of({FLT_MIN * 127.0f, -FLT_MIN * 63.5f, FLT_MIN * 7.0f, FLT_MIN * 0.5f}))},
      {"halfway of int8", fill(one_of({127.0f, 0.5f, -0.5f, 1.5f, 2.5f, -2.5f, 62.5f, 63.5f, -126.5f}))},
      {"halfway of int4", fill(one_of({7.0f, 0.5f, -0.5f, 1.5f, 2.5f, -2.5f, -6.5f}))},
      {"halfway of fp4", fill(one_of({6.0f, 0.25f, -0.25f, 0.75f, 1.25f, 1.75f, 2.5f, -3.5f, 5.0f}))},
      {"halfway of words", fill(one_of({65504.0f, 65520.0f, 0x1.01p0f, 0x1.03p0f, 0x1.002p0f, -0x1.006p0f, 0x1p-14f,
                                        0x1p-25f, 0x1.8p-24f, 0x1.FFCp-15f, -0x1.FFEp-15f}))},
      {"one sign", fill([&] { return -1.0f - static_cast<float>(random() % 1000) * 1e-6f; })},
      {"few far from the rest", fill([&] { return random() % 97 == 0 ? 1e4f : static_cast<float>(random() % 8) * -1e-3f; })},
  };
}

// Packed bytes, most of which no encoder writes: good ones with a few bytes changed, and scales and levels on and
// around their limits.
inline std::vector<std::vector<uint8_t>> DamagedForms(const std::vector<uint8_t>& good, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::vector<uint8_t>> forms = {good};
  for (int form = 0; form < 40 && !good.empty(); ++form) {
    forms.push_back(good);
    for (uint32_t changes = random() % 3 + 1; changes > 0; --changes) {
      forms.back()[random() % good.size()] = static_cast<uint8_t>(random());
    }
  }
  for (const float first : {-0.0f, -1.0f, NAN, INFINITY, FLT_MIN / 2, FLT_MIN, 0x1.020406p+121f, 0x1.020408p+121f,
                            0x1.249248p+125f, 0x1.24924ap+125f, 0x1.555554p+125f, 0x1.555556p+125f, 0x1p114f,
                            0x1.000002p114f, FLT_MAX}) {
    if (good.size() < sizeof(first)) continue;
    forms.push_back(good);
    const auto bits = std::bit_cast<uint32_t>(first);
    for (size_t byte = 0; byte < sizeof(first); ++byte) forms.back()[byte] = static_cast<uint8_t>(bits >> 8 * byte);
  }
  if (!good.empty()) {
    forms.push_back(good);
    forms.back().back() |= 0xF0;  // beyond the last value, where that fills no byte
    forms.push_back(good);
    forms.back().back() = 0x80;
    forms.push_back(good);
    for (uint8_t& byte : forms.back()) byte = static_cast<uint8_t>(random());
  }
  return forms;
}

}  // namespace gdf::cuda

#endif  // GDF_TESTS_UNIT_CUDA_CASES_H_
