// The orthonormal DCT-II of 64 values: y[k] = w[k] * sum over i of x[i] cos(pi (2 i + 1) k / 128), where
// w[0] = 1/8 and w[k] = sqrt(1/32) (Ahmed, Natarajan, Rao 1974). Its tables, the same on every
// machine. Internal to compress.
#ifndef GDF_CORE_COMPRESS_DCT_H_
#define GDF_CORE_COMPRESS_DCT_H_

#include <array>
#include <cstddef>

namespace gdf::compress {

constexpr size_t kDctSize = 64;
constexpr size_t kDctHalf = kDctSize / 2;
constexpr size_t kDctBlock = 4096;  // values under one scale
constexpr size_t kMaxDctKept = kDctBlock / kDctSize * 32;  // coefficients of a block
constexpr size_t kDctIndexBits = 6;
constexpr float kDctLimit = 0x1p117f;  // of an input's magnitude: no sum overflows
constexpr float kDctMaxScale = 0x1p114f;  // of int8 coefficients: nothing that they decode to does

struct DctTables {
  float basis[kDctSize][kDctSize];    // [k][i], rounded from binary64
  float forward[kDctHalf][kDctSize];  // [i][j]: basis[2 j][i] for j < 32, then basis[2 j - 63][i]
};

namespace internal {

// Of 0 to pi / 2, by Taylor's series; the first term left out is below 2^-70.
constexpr double CosineOf(double x) {
  double sum = 1.0, term = 1.0;
  for (int n = 2; n <= 26; n += 2) {
    term *= -x * x / (n * (n - 1));
    sum += term;
  }
  return sum;
}

constexpr DctTables MakeDctTables() {
  constexpr double kPi = 0x1.921fb54442d18p+1;
  constexpr double kWeight = 0x1.6a09e667f3bcdp-3;  // sqrt(1 / 32)
  std::array<float, kDctSize + 1> quarter{};        // of j steps of pi / 128
  for (size_t j = 0; j <= kDctSize; ++j) {
    quarter[j] = j == kDctSize ? 0.0f : static_cast<float>(kWeight * CosineOf(kPi / 128 * static_cast<double>(j)));
  }
  DctTables tables{};
  for (size_t k = 0; k < kDctSize; ++k) {
    for (size_t i = 0; i < kDctSize; ++i) {
      const size_t turn = (2 * i + 1) * k % 256;
      const size_t half = turn <= 128 ? turn : 256 - turn;
      const float value = half <= 64 ? quarter[half] : -quarter[128 - half];
      tables.basis[k][i] = k == 0 ? 0.125f : value;
    }
  }
  for (size_t i = 0; i < kDctHalf; ++i) {
    for (size_t j = 0; j < kDctHalf; ++j) {
      tables.forward[i][j] = tables.basis[2 * j][i];
      tables.forward[i][kDctHalf + j] = tables.basis[2 * j + 1][i];
    }
  }
  return tables;
}

}  // namespace internal

alignas(64) inline constexpr DctTables kDctTables = internal::MakeDctTables();

}  // namespace gdf::compress

#endif  // GDF_CORE_COMPRESS_DCT_H_
