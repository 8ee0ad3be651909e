// Random bits by position: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as
// easy as 1, 2, 3, SC 2011). Internal to compress.
#ifndef GDF_CORE_COMPRESS_PHILOX_H_
#define GDF_CORE_COMPRESS_PHILOX_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace gdf::compress {

constexpr int kPhiloxRounds = 10;
constexpr uint32_t kPhiloxFactors[2] = {0xD2511F53u, 0xCD9E8D57u};
constexpr uint32_t kPhiloxKeySteps[2] = {0x9E3779B9u, 0xBB67AE85u};

// The lower half of `key` is its first word.
constexpr std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, uint64_t key) {
  auto key0 = static_cast<uint32_t>(key);
  auto key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t product0 = uint64_t{kPhiloxFactors[0]} * counter[0];
    const uint64_t product1 = uint64_t{kPhiloxFactors[1]} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key0, static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key1, static_cast<uint32_t>(product0)};
    key0 += kPhiloxKeySteps[0];
    key1 += kPhiloxKeySteps[1];
  }
  return counter;
}

// Values take their random words in groups: that of value 16 w + l of group g is word w for counter
// 16 g + l.
constexpr size_t kRandomLanes = 16;
constexpr size_t kRandomGroup = 4 * kRandomLanes;

}  // namespace gdf::compress

#endif  // GDF_CORE_COMPRESS_PHILOX_H_
