// The scalar form of the codecs' loops, also the end of a SIMD loop, where fewer values are left
// than a vector holds. Internal to compress.
#ifndef GDF_CORE_COMPRESS_SCALAR_LOOPS_H_
#define GDF_CORE_COMPRESS_SCALAR_LOOPS_H_

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/compress/kernels.h"
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

template <typename C>
void EncodeCodes(const float* in, size_t count, float inverse, uint8_t* out) {
  if constexpr (C::kBits == 8) {
    for (size_t i = 0; i < count; ++i) out[i] = static_cast<uint8_t>(C::FromFloat(in[i], inverse));
  } else {
    for (size_t i = 0; i < count; i += 2) {
      const uint32_t low = C::FromFloat(in[i], inverse);
      const uint32_t high = i + 1 < count ? C::FromFloat(in[i + 1], inverse) : 0u;
      out[i / 2] = static_cast<uint8_t>(low | high << 4);
    }
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

template <typename W>
inline constexpr WordLoops kWordLoops = {EncodeWords<W>, DecodeWords<W>, AccumulateWords<W>};
template <typename C>
inline constexpr CodeLoops kCodeLoops = {EncodeCodes<C>, DecodeCodes<C>, AccumulateCodes<C>};

}  // namespace gdf::compress::scalar

#endif  // GDF_CORE_COMPRESS_SCALAR_LOOPS_H_
