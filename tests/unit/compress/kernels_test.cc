// Every instruction set gives the bytes and values of the scalar loops, which say what they are.
#include "core/compress/kernels.h"

#include "core/compress/dct.h"
#include "core/compress/philox.h"
#include "core/compress/scalar_loops.h"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cstring>
#include <hwy/highway.h>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace gdf::compress {
namespace {

// Of every instruction set that was built and that this processor has.
std::vector<const Kernels*> AllSimdKernels() {
  std::vector<const Kernels*> all;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    all.push_back(&SimdKernels());
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return all;
}

// Any finite bits, with numbers on and around every boundary that a loop compares with.
std::vector<float> Values(size_t count, uint32_t seed) {
  static constexpr float kSpecial[] = {
      0.0f,     -0.0f,    0.25f,     -0.25f,   0.75f,     1.25f,   1.75f,   2.0f,      2.5f,
      3.5f,     4.0f,     5.0f,      6.0f,     7.0f,      127.0f,  -127.0f, 65504.0f,  65520.0f,
      0x1p-14f, 0x1p-24f, -0x1p-25f, 0x1p-25f, 0x1p-126f, 0x1p-149f, 0x1.fffffep127f, -0x1.fffffep127f,
      0x1.FFp-15f, 0x1.002p0f, 0x1.01p0f};
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    const uint32_t draw = static_cast<uint32_t>(random());
    if (draw % 4 == 0) {
      value = kSpecial[draw / 4 % std::size(kSpecial)];
    } else if (draw % 4 == 1) {
      do value = std::bit_cast<float>(static_cast<uint32_t>(random()));
      while (!std::isfinite(value));
    } else {
      value = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-26f;  // within 32
    }
  }
  return values;
}

// The indices of the k largest magnitudes, by sorting.
std::vector<uint16_t> Largest(const std::vector<float>& values, size_t k) {
  std::vector<uint16_t> order(values.size());
  std::iota(order.begin(), order.end(), uint16_t{0});
  std::stable_sort(order.begin(), order.end(), [&](uint16_t a, uint16_t b) {
    return std::abs(values[a]) > std::abs(values[b]);
  });
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<uint8_t> RandomBytes(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// NaNs compare equal when their bits do.
bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
  });
}

constexpr size_t kCounts[] = {0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 256, 4096};
constexpr float kStart = 0.5f;  // what a buffer holds before

void SameWords(const WordLoops& simd, const WordLoops& scalar, size_t bytes) {
  for (const size_t count : kCounts) {
    const std::vector<float> values = Values(count, static_cast<uint32_t>(count));
    std::vector<uint8_t> a(count * bytes), b(count * bytes);
    simd.encode(values.data(), count, a.data());
    scalar.encode(values.data(), count, b.data());
    REQUIRE(a == b);
    for (int form = 0; form < 2; ++form) {  // what was encoded, then anything
      if (form == 1) a = RandomBytes(a.size(), static_cast<uint32_t>(count + 1));
      std::vector<float> x(count, kStart), y(count, kStart);
      const bool good = scalar.decode(a.data(), count, y.data());
      REQUIRE(simd.decode(a.data(), count, x.data()) == good);
      if (form == 0) REQUIRE(good);
      if (good) REQUIRE(SameBits(x, y));
      const bool added = scalar.accumulate(a.data(), count, 0.3f, y.data());
      REQUIRE(simd.accumulate(a.data(), count, 0.3f, x.data()) == added);
      if (added) REQUIRE(SameBits(x, y));
    }
  }
}

void SameCodes(const CodeLoops& simd, const CodeLoops& scalar, size_t bits) {
  for (const size_t count : kCounts) {
    const std::vector<float> values = Values(count, static_cast<uint32_t>(count));
    const size_t bytes = (count * bits + 7) / 8;
    for (const float inverse : {0.0f, 1.0f, 0.7f, 0x1p126f, 0x1p-122f}) {
      std::vector<uint8_t> a(bytes), b(bytes);
      simd.encode(values.data(), count, inverse, a.data());
      scalar.encode(values.data(), count, inverse, b.data());
      REQUIRE(a == b);
      for (int form = 0; form < 2; ++form) {
        if (form == 1) a = RandomBytes(a.size(), static_cast<uint32_t>(count + 1));
        std::vector<float> x(count, kStart), y(count, kStart);
        const bool good = scalar.decode(a.data(), count, 0.3f, y.data());
        REQUIRE(simd.decode(a.data(), count, 0.3f, x.data()) == good);
        if (form == 0) REQUIRE(good);
        if (good) REQUIRE(SameBits(x, y));
        const bool added = scalar.accumulate(a.data(), count, 0.3f, 0.7f, y.data());
        REQUIRE(simd.accumulate(a.data(), count, 0.3f, 0.7f, x.data()) == added);
        if (added) REQUIRE(SameBits(x, y));
      }
    }
  }
}

void SameStochastic(EncodeStochastic simd, EncodeStochastic scalar, size_t bits) {
  for (const size_t count : kCounts) {
    if (count > kRandomGroup) continue;
    const std::vector<float> values = Values(count, static_cast<uint32_t>(count));
    std::vector<uint32_t> words(count);
    std::mt19937 random(static_cast<uint32_t>(count));
    for (uint32_t& word : words) word = static_cast<uint32_t>(random()) >> random() % 32;
    for (const float inverse : {0.0f, 1.0f, 0.7f, 3.1f, 0x1p126f, 0x1p-122f}) {
      std::vector<uint8_t> a((count * bits + 7) / 8), b(a.size());
      simd(values.data(), count, inverse, words.data(), a.data());
      scalar(values.data(), count, inverse, words.data(), b.data());
      REQUIRE(a == b);
    }
  }
}

// Random123 1.14, tests/kat_vectors, "philox4x32 10".
TEST_CASE("Philox gives the published answers") {
  using Words = std::array<uint32_t, 4>;
  CHECK(Philox({0, 0, 0, 0}, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(Philox({~0u, ~0u, ~0u, ~0u}, ~uint64_t{0}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(Philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

// What a choice of the largest may trip over: equal ones, all of them or at the border, and large ones side by side or
// 16, 64 or 256 values apart, so that groups of values are not alike.
std::vector<std::vector<float>> HardToChooseFrom(size_t count) {
  std::vector<std::vector<float>> all = {
      std::vector<float>(count, 0.0f), std::vector<float>(count, -0x1p-149f), std::vector<float>(count, 1.5f),
      std::vector<float>(count, std::numeric_limits<float>::max())};
  const auto add = [&](auto value_of) {
    std::vector<float>& values = all.emplace_back(count);
    for (size_t i = 0; i < count; ++i) values[i] = value_of(i);
  };
  add([](size_t i) { return i % 2 == 0 ? 0.0f : -0.0f; });
  add([](size_t i) { return i % 2 == 0 ? 2.0f : -2.0f; });
  add([](size_t i) { return static_cast<float>(i % 3) * 0x1p-149f; });
  add([](size_t i) { return static_cast<float>(i) * 0x1p-140f; });
  add([](size_t i) { return -1.0f / static_cast<float>(i + 1); });
  add([count](size_t i) { return i < count / 2 ? 1.0f : std::numeric_limits<float>::max(); });
  add([count](size_t i) { return i + 1 < count ? 0.0f : 0x1p-149f; });
  for (const size_t apart : {16, 64, 256}) {
    add([apart](size_t i) { return i % apart == 3 ? 100.0f + static_cast<float>(i % 7) : static_cast<float>(i % 5); });
  }
  return all;
}

void SelectsLargest(const Kernels& kernels) {
  for (const size_t count : {1, 5, 64, 100, 1000, 4095, 4096}) {
    for (const std::vector<float>& values : HardToChooseFrom(count)) {
      for (const size_t k : {size_t{1}, size_t{4}, size_t{64}, size_t{82}, size_t{511}, size_t{512}, size_t{1024}, count}) {
        if (k > count) continue;
        std::vector<uint16_t> indices(k);
        kernels.select(values.data(), count, k, indices.data());
        REQUIRE(indices == Largest(values, k));
      }
    }
  }
}

void SameDct(const Kernels& simd, const Kernels& scalar) {
  for (const size_t chunks : {1, 3, 16, 17, 64}) {
    std::vector<std::vector<float>> all = HardToChooseFrom(chunks * kDctSize);
    all.push_back(Values(chunks * kDctSize, static_cast<uint32_t>(chunks)));
    // One value, so small that coefficients are 0 or its magnitude.
    all.emplace_back(chunks * kDctSize);
    for (size_t i = 0; i < all.back().size(); i += kDctSize + 1) all.back()[i] = 0x5p-149f;
    for (const std::vector<float>& values : all) {
      for (const size_t k : {1, 4, 7, 32}) {
        std::vector<float> a(chunks * k), b(chunks * k);
        std::vector<uint8_t> indices(chunks * k), same(chunks * k);
        simd.largest_of_dct(values.data(), chunks, k, a.data(), indices.data());
        scalar.largest_of_dct(values.data(), chunks, k, b.data(), same.data());
        REQUIRE(SameBits(a, b));
        REQUIRE(indices == same);
        for (const float value : a) REQUIRE(std::isfinite(value));
        std::vector<float> x(chunks * kDctSize), y(chunks * kDctSize);
        simd.inverse_dct(a.data(), indices.data(), chunks, k, x.data());
        scalar.inverse_dct(a.data(), indices.data(), chunks, k, y.data());
        REQUIRE(SameBits(x, y));
      }
    }
  }
}

// The coefficients are those of the transform, in each chunk.
TEST_CASE("the largest coefficients are chosen from the DCT-II of each chunk") {
  constexpr size_t kChunks = 3, kKept = 5;
  const std::vector<float> values = Values(kChunks * kDctSize, 7);
  std::vector<float> kept(kChunks * kKept);
  std::vector<uint8_t> indices(kChunks * kKept);
  ScalarKernels().largest_of_dct(values.data(), kChunks, kKept, kept.data(), indices.data());
  for (size_t chunk = 0; chunk < kChunks; ++chunk) {
    std::vector<float> coefficients(kDctSize);
    scalar::Dct(values.data() + chunk * kDctSize, coefficients.data());
    const std::vector<uint16_t> largest = Largest(coefficients, kKept);
    for (size_t i = 0; i < kKept; ++i) {
      CHECK(indices[chunk * kKept + i] == largest[i]);
      CHECK(kept[chunk * kKept + i] == coefficients[largest[i]]);
    }
  }
}

// y[k] = w[k] sum of x[i] cos(pi (2 i + 1) k / 128) in binary64, w[0] = 1/8 and w[k] = sqrt(1/32) (Ahmed, Natarajan,
// Rao 1974). Of 64 products and sums of at most |x| / 4 each, each rounded to float32: within 64 * 64 / 4 * 2^-24.
TEST_CASE("the DCT-II is its definition") {
  std::mt19937 random(3);
  std::vector<float> values(kDctSize), coefficients(kDctSize), back(kDctSize);
  for (float& value : values) value = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f;
  scalar::Dct(values.data(), coefficients.data());
  std::vector<uint8_t> all(kDctSize);
  std::iota(all.begin(), all.end(), uint8_t{0});
  ScalarKernels().inverse_dct(coefficients.data(), all.data(), 1, kDctSize, back.data());
  const auto factor = [](size_t k, size_t i) {
    const double weight = k == 0 ? 0.125 : std::sqrt(1.0 / 32);
    return weight * std::cos(std::acos(-1.0) * static_cast<double>((2 * i + 1) * k) / 128);
  };
  for (size_t k = 0; k < kDctSize; ++k) {
    double expected = 0.0;
    for (size_t i = 0; i < kDctSize; ++i) {
      expected += values[i] * factor(k, i);
      CHECK(kDctTables.basis[k][i] == static_cast<float>(factor(k, i)) + 0.0f);
    }
    CHECK(std::abs(coefficients[k] - expected) <= 0x1p-14);
    CHECK(std::abs(back[k] - values[k]) <= 0x1p-14);
  }
}

TEST_CASE("every instruction set gives the same bytes and values as the scalar loops") {
  const Kernels& scalar = ScalarKernels();
  const std::vector<const Kernels*> all = AllSimdKernels();
  REQUIRE(!all.empty());
  SelectsLargest(scalar);
  for (const Kernels* simd : all) {
    INFO(simd->name);
    for (const size_t count : kCounts) {
      const std::vector<float> values = Values(count, static_cast<uint32_t>(count));
      CHECK(simd->max_magnitude(values.data(), count) == scalar.max_magnitude(values.data(), count));
      CHECK(std::bit_cast<uint32_t>(simd->sum_magnitudes(values.data(), count)) ==
            std::bit_cast<uint32_t>(scalar.sum_magnitudes(values.data(), count)));
      const std::vector<float> others = Values(count, static_cast<uint32_t>(count + 1));
      CHECK(SameBits({simd->dot(values.data(), others.data(), count)}, {scalar.dot(values.data(), others.data(), count)}));
      for (const size_t k : {size_t{1}, count / 3, count / 2, count}) {
        if (k == 0 || k > count) continue;
        std::vector<uint16_t> a(k), b(k);
        simd->select(values.data(), count, k, a.data());
        scalar.select(values.data(), count, k, b.data());
        REQUIRE(a == b);
        REQUIRE(a == Largest(values, k));
      }
    }
    for (const uint64_t group : {uint64_t{0}, uint64_t{1}, uint64_t{0x0FFFFFFF}, uint64_t{0x123456789ABC}}) {
      uint32_t a[kRandomGroup], b[kRandomGroup];
      simd->random(0x0123456789ABCDEF ^ group, group, a);
      scalar.random(0x0123456789ABCDEF ^ group, group, b);
      CHECK(std::equal(a, a + kRandomGroup, b));
    }
    SelectsLargest(*simd);
    SameDct(*simd, scalar);
    SameStochastic(simd->int8_stochastic, scalar.int8_stochastic, 8);
    SameStochastic(simd->int4_stochastic, scalar.int4_stochastic, 4);
    SameWords(simd->fp32, scalar.fp32, 4);
    SameWords(simd->bf16, scalar.bf16, 2);
    SameWords(simd->fp16, scalar.fp16, 2);
    SameCodes(simd->int8, scalar.int8, 8);
    SameCodes(simd->int4, scalar.int4, 4);
    SameCodes(simd->fp4, scalar.fp4, 4);
    SameCodes(simd->sign, scalar.sign, 1);
  }
}

TEST_CASE("a refused code is found wherever it stands") {
  for (const Kernels* simd : AllSimdKernels()) {
    INFO(simd->name);
    for (size_t at = 0; at < 67; ++at) {
      std::vector<float> out(67);
      std::vector<uint8_t> words(67 * 4), codes(67), pairs(34);
      REQUIRE(simd->fp32.decode(words.data(), 67, out.data()));
      words[at * 4 + 2] = 0x80;
      words[at * 4 + 3] = 0x7F;  // infinity
      CHECK(!simd->fp32.decode(words.data(), 67, out.data()));
      CHECK(!simd->bf16.decode(words.data() + 2, 133, std::vector<float>(133).data()));
      codes[at] = 0x80;
      CHECK(!simd->int8.decode(codes.data(), 67, 1.0f, out.data()));
      REQUIRE(simd->int4.decode(pairs.data(), 67, 1.0f, out.data()));
      pairs[at / 2] = at % 2 == 0 ? 0x08 : 0x80;
      CHECK(!simd->int4.decode(pairs.data(), 67, 1.0f, out.data()));
      CHECK(!simd->fp4.accumulate(pairs.data(), 67, 1.0f, 1.0f, out.data()));
    }
  }
}

}  // namespace
}  // namespace gdf::compress
