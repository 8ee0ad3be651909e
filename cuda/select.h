// The k largest magnitudes of a chunk, of equal ones the earlier: by bisection of their bits, as core/compress does it. A
// histogram of bits would be fewer passes, but most values share their exponent, on whose counter threads would wait for each other.
#ifndef GDF_CUDA_SELECT_H_
#define GDF_CUDA_SELECT_H_

#include "core/compress/scalar_loops.h"
#include "cuda/team.h"

namespace gdf::cuda {

// Of neighbouring values, kEach a thread, in the order of the threads; -1 beyond the last value.
template <uint32_t kEach>
struct Magnitudes {
  int32_t v[kEach];
};

// `largest` of them is finite, k from 1 to as many as there are. Calls take(thread, i, place) for value i of a thread
// that is kept; places ascend from 0 with the values.
template <uint32_t kEach, typename Team, typename Take>
GDF_DEVICE void Select(Team& team, typename Team::template Local<Magnitudes<kEach>>& magnitudes, uint32_t k,
                       int32_t largest, Take take) {
  const int32_t kth = compress::scalar::KthMagnitude({k, k}, 0, largest, [&](int32_t least) -> size_t {
    return team.Sum([&](uint32_t thread) {
      uint32_t found = 0;
      for (const int32_t magnitude : magnitudes[thread].v) found += magnitude >= least ? 1u : 0u;
      return found;
    });
  });
  // Both counts in one scan: of larger ones in the lower half, of equal ones in the upper.
  typename Team::template Local<uint32_t> before;
  const uint32_t all = team.Scan(
      [&](uint32_t thread) {
        uint32_t counts = 0;
        for (const int32_t magnitude : magnitudes[thread].v) {
          counts += magnitude > kth ? 1u : magnitude == kth ? 1u << 16 : 0u;
        }
        return counts;
      },
      before);
  const uint32_t equal_kept = k - (all & 0xFFFFu);
  team.Each([&](uint32_t thread) {
    uint32_t larger = before[thread] & 0xFFFFu, equal = before[thread] >> 16;
    for (uint32_t i = 0; i < kEach; ++i) {
      const int32_t magnitude = magnitudes[thread].v[i];
      const bool is_equal = magnitude == kth;
      if (magnitude > kth || (is_equal && equal < equal_kept)) {
        take(thread, i, larger + (equal < equal_kept ? equal : equal_kept));
      }
      larger += magnitude > kth ? 1u : 0u;
      equal += is_equal ? 1u : 0u;
    }
  });
}

// Byte `byte` of `count` fields of `bits` bits each, which lie one after the other; field(i) gives them.
template <typename Field>
GDF_DEVICE uint8_t ByteOfFields(uint32_t byte, uint32_t bits, uint32_t count, Field field) {
  uint32_t packed = 0;
  const uint32_t begin = byte * 8;
  for (uint32_t i = begin / bits; i < count && i * bits < begin + 8; ++i) {
    const uint32_t value = field(i);
    packed |= i * bits >= begin ? value << (i * bits - begin) : value >> (begin - i * bits);
  }
  return static_cast<uint8_t>(packed);
}

}  // namespace gdf::cuda

#endif  // GDF_CUDA_SELECT_H_
