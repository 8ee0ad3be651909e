// The scalar form of the codecs' loops, also the end of a SIMD loop, where fewer values are left
// than a vector holds. Internal to compress.
#ifndef GDF_CORE_COMPRESS_SCALAR_LOOPS_H_
#define GDF_CORE_COMPRESS_SCALAR_LOOPS_H_

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/compress/bits.h"
#include "core/compress/dct.h"
#include "core/compress/kernels.h"
#include "core/compress/philox.h"
#include "core/compress/values.h"

namespace gdf::compress::scalar {

inline int32_t MaxMagnitude(const float* in, size_t count) {
  int32_t most = 0;
  for (size_t i = 0; i < count; ++i) most = std::max(most, MagnitudeBits(in[i]));
  return most;
}

template <typename W>
void EncodeWords(const float* in, size_t count, uint8_t* out) {
  for (size_t i = 0; i < count; ++i) {
    const typename W::Word word = W::FromFloat(in[i]);
    std::memcpy(out + i * sizeof(word), &word, sizeof(word));
  }
}

// Calls use(i, value) for each value; false when one is refused.
template <typename W, typename Use>
bool UnpackWords(const uint8_t* in, size_t count, Use use) {
  uint32_t bad = 0;
  for (size_t i = 0; i < count; ++i) {
    typename W::Word word;
    std::memcpy(&word, in + i * sizeof(word), sizeof(word));
    const uint32_t bits = W::ToBits(word);
    bad |= NotFinite(bits);
    use(i, std::bit_cast<float>(bits));
  }
  return bad == 0;
}

template <typename W>
bool DecodeWords(const uint8_t* in, size_t count, float* out) {
  return UnpackWords<W>(in, count, [out](size_t i, float value) { out[i] = value; });
}

template <typename W>
bool AccumulateWords(const uint8_t* in, size_t count, float weight, float* acc) {
  return UnpackWords<W>(in, count, [weight, acc](size_t i, float value) {
    acc[i] = Accumulate(acc[i], weight, value);
  });
}

// Writes code_of(i) for each value.
template <typename C, typename CodeOf>
void PackCodes(size_t count, uint8_t* out, CodeOf code_of) {
  if constexpr (C::kBits == 8) {
    for (size_t i = 0; i < count; ++i) out[i] = static_cast<uint8_t>(code_of(i));
  } else {
    for (size_t i = 0; i < count; i += 2) {
      const uint32_t low = code_of(i);
      const uint32_t high = i + 1 < count ? code_of(i + 1) : 0u;
      out[i / 2] = static_cast<uint8_t>(low | high << 4);
    }
  }
}

template <typename C>
void EncodeCodes(const float* in, size_t count, float inverse, uint8_t* out) {
  PackCodes<C>(count, out, [in, inverse](size_t i) { return C::FromFloat(in[i], inverse); });
}

template <typename C>
void EncodeStochastic(const float* in, size_t count, float inverse, const uint32_t* words, uint8_t* out) {
  PackCodes<C>(count, out, [in, inverse, words](size_t i) { return C::FromFloat(in[i], inverse, words[i]); });
}

inline void Random(uint64_t seed, uint64_t group, uint32_t* words) {
  for (size_t lane = 0; lane < kRandomLanes; ++lane) {
    const uint64_t counter = group * kRandomLanes + lane;
    const std::array<uint32_t, 4> random =
        Philox({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}, seed);
    for (size_t w = 0; w < 4; ++w) words[w * kRandomLanes + lane] = random[w];
  }
}

template <typename C, typename Use>
bool UnpackCodes(const uint8_t* in, size_t count, float scale, Use use) {
  bool bad = false;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t code = C::kBits == 8 ? in[i] : in[i / 2] >> (i % 2 * 4) & 15u;
    bad |= code == C::kUnused;
    use(i, scale * C::ToFloat(code));
  }
  if (C::kBits == 4 && count % 2 != 0) bad |= in[count / 2] >> 4 != 0;
  return !bad;
}

template <typename C>
bool DecodeCodes(const uint8_t* in, size_t count, float scale, float* out) {
  return UnpackCodes<C>(in, count, scale, [out](size_t i, float value) { out[i] = value; });
}

template <typename C>
bool AccumulateCodes(const uint8_t* in, size_t count, float scale, float weight, float* acc) {
  return UnpackCodes<C>(in, count, scale, [weight, acc](size_t i, float value) {
    acc[i] = Accumulate(acc[i], weight, value);
  });
}

inline float SumMagnitudes(const float* in, size_t count) {
  float sums[kSums] = {};
  for (size_t i = 0; i < count; ++i) sums[i % kSums] += std::abs(in[i]) * kSumUnit;
  return AddUp(sums);
}

inline float Dot(const float* a, const float* b, size_t count) {
  float sums[kSums] = {};
  for (size_t i = 0; i < count; ++i) sums[i % kSums] = Accumulate(sums[i % kSums], a[i], b[i]);
  return AddUp(sums);
}

inline void EncodeSigns(const float* in, size_t count, float, uint8_t* out) {
  std::fill_n(out, BytesOfBits(count), uint8_t{0});
  for (size_t i = 0; i < count; ++i) {
    const uint32_t sign = std::bit_cast<uint32_t>(in[i]) >> 31;
    out[i / 8] |= static_cast<uint8_t>(sign << i % 8);
  }
}

template <typename Use>
bool UnpackSigns(const uint8_t* in, size_t count, float scale, Use use) {
  for (size_t i = 0; i < count; ++i) use(i, (in[i / 8] >> i % 8 & 1) != 0 ? -scale : scale);
  return count % 8 == 0 || in[count / 8] >> count % 8 == 0;
}

inline bool DecodeSigns(const uint8_t* in, size_t count, float scale, float* out) {
  return UnpackSigns(in, count, scale, [out](size_t i, float value) { out[i] = value; });
}

inline bool AccumulateSigns(const uint8_t* in, size_t count, float scale, float weight, float* acc) {
  return UnpackSigns(in, count, scale, [weight, acc](size_t i, float value) {
    acc[i] = Accumulate(acc[i], weight, value);
  });
}

inline size_t CountAtLeast(const float* in, size_t count, int32_t least) {
  size_t found = 0;
  for (size_t i = 0; i < count; ++i) found += MagnitudeBits(in[i]) >= least;
  return found;
}

// How many values are to reach a magnitude.
struct Wanted {
  size_t least, most;
};

// A magnitude that as many as are wanted reach or, where there is none for equal values, that more reach and fewer
// exceed, by bisection of its bits from `reached` on, which enough do.
template <typename Count>
constexpr int32_t KthMagnitude(Wanted wanted, int32_t reached, int32_t largest, Count count_at_least) {
  int32_t beyond = largest + 1;
  while (beyond - reached > 1) {
    const int32_t middle = reached + (beyond - reached) / 2;
    const size_t found = count_at_least(middle);
    if (found >= wanted.least && found <= wanted.most) return middle;
    (found > wanted.most ? reached : beyond) = middle;
  }
  return reached;
}

inline void Select(const float* in, size_t count, size_t k, uint16_t* indices) {
  const int32_t kth = KthMagnitude({k, k}, 0, MaxMagnitude(in, count), [&](int32_t least) {
    return CountAtLeast(in, count, least);
  });
  size_t equal = k - CountAtLeast(in, count, kth + 1);  // that are taken
  for (size_t i = 0; i < count; ++i) {
    const int32_t magnitude = MagnitudeBits(in[i]);
    if (magnitude < kth || (magnitude == kth && equal == 0)) continue;
    if (magnitude == kth) --equal;
    *indices++ = static_cast<uint16_t>(i);
  }
}

// Values i and 63 - i have the same factors for an even coefficient and opposite ones for an odd one,
// so sums and differences are transformed, by ascending i.
inline void Dct(const float* in, float* out) {
  std::fill_n(out, kDctSize, 0.0f);
  for (size_t i = 0; i < kDctHalf; ++i) {
    const float a = std::clamp(in[i], -kDctLimit, kDctLimit);
    const float b = std::clamp(in[kDctSize - 1 - i], -kDctLimit, kDctLimit);
    const float sum = a + b, difference = a - b;
    for (size_t j = 0; j < kDctHalf; ++j) {
      out[2 * j] = Accumulate(out[2 * j], sum, kDctTables.forward[i][j]);
      out[2 * j + 1] = Accumulate(out[2 * j + 1], difference, kDctTables.forward[i][kDctHalf + j]);
    }
  }
}

inline void LargestOfDct(const float* in, size_t chunks, size_t k, float* values, uint8_t* indices) {
  for (size_t chunk = 0; chunk < chunks; ++chunk) {
    float coefficients[kDctSize];
    uint16_t largest[kDctSize];
    Dct(in + chunk * kDctSize, coefficients);
    Select(coefficients, kDctSize, k, largest);
    for (size_t i = 0; i < k; ++i) {
      *values++ = coefficients[largest[i]];
      *indices++ = static_cast<uint8_t>(largest[i]);
    }
  }
}

inline void InverseDct(const float* coefficients, const uint8_t* indices, size_t chunks, size_t k, float* out) {
  std::fill_n(out, chunks * kDctSize, 0.0f);
  for (size_t c = 0; c < chunks * k; ++c) {
    const float* basis = kDctTables.basis[indices[c]];
    float* to = out + c / k * kDctSize;
    for (size_t i = 0; i < kDctSize; ++i) to[i] = Accumulate(to[i], coefficients[c], basis[i]);
  }
}

template <typename W>
inline constexpr WordLoops kWordLoops = {EncodeWords<W>, DecodeWords<W>, AccumulateWords<W>};
template <typename C>
inline constexpr CodeLoops kCodeLoops = {EncodeCodes<C>, DecodeCodes<C>, AccumulateCodes<C>};
inline constexpr CodeLoops kSignLoops = {EncodeSigns, DecodeSigns, AccumulateSigns};

}  // namespace gdf::compress::scalar

#endif  // GDF_CORE_COMPRESS_SCALAR_LOOPS_H_
