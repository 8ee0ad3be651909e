#include "core/base/rng.h"

#include <openssl/rand.h>

#include <cstring>

#include "core/base/check.h"

namespace gdf {

uint64_t Rng::Next() {
  uint8_t raw[8];
  Fill(absl::MakeSpan(raw, 8));
  uint64_t value = 0;
  for (int i = 0; i < 8; ++i) value |= static_cast<uint64_t>(raw[i]) << (8 * i);
  return value;
}

uint64_t Rng::Below(uint64_t bound) {
  GDF_CHECK(bound > 0);
  const uint64_t reject_below = -bound % bound;  // 2^64 mod bound
  while (true) {
    const uint64_t value = Next();
    if (value >= reject_below) return value % bound;
  }
}

double Rng::Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

void SystemRng::Fill(absl::Span<uint8_t> out) {
  GDF_CHECK(RAND_bytes(out.data(), static_cast<int>(out.size())) == 1);
}

uint64_t SeededRng::NextWord() {
  uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void SeededRng::Fill(absl::Span<uint8_t> out) {
  for (size_t at = 0; at < out.size(); at += 8) {
    const uint64_t word = NextWord();
    for (size_t i = 0; i < 8 && at + i < out.size(); ++i) {
      out[at + i] = static_cast<uint8_t>(word >> (8 * i));
    }
  }
}

uint64_t MixSeed(uint64_t seed, uint64_t a, uint64_t b) {
  SeededRng first(seed);
  SeededRng second(first.NextWord() ^ a);
  SeededRng third(second.NextWord() ^ b);
  return third.NextWord();
}

}  // namespace gdf
