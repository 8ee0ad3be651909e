// Random bits: SystemRng for secrets and ids, SeededRng where a history must repeat.
#ifndef GDF_CORE_BASE_RNG_H_
#define GDF_CORE_BASE_RNG_H_

#include <cstdint>

#include "absl/types/span.h"

namespace gdf {

class Rng {
 public:
  virtual ~Rng() = default;
  virtual void Fill(absl::Span<uint8_t> out) = 0;
  uint64_t Next();
  // Uniform in [0, bound), without bias. bound > 0.
  uint64_t Below(uint64_t bound);
  // Uniform in [0, 1), 53 bits.
  double Unit();
};

// The kernel's generator; fit for keys. Thread-safe.
class SystemRng final : public Rng {
 public:
  void Fill(absl::Span<uint8_t> out) override;
};

// SplitMix64 (Steele, Lea, Flood 2014): same seed, same sequence on every machine. Not for secrets.
class SeededRng final : public Rng {
 public:
  explicit SeededRng(uint64_t seed) : state_(seed) {}
  void Fill(absl::Span<uint8_t> out) override;
  uint64_t NextWord();
  uint64_t state() const { return state_; }

 private:
  uint64_t state_;
};

// A seed for a sub-stream: equal arguments, equal seed; any difference, an unrelated one.
uint64_t MixSeed(uint64_t seed, uint64_t a, uint64_t b = 0);

}  // namespace gdf

#endif  // GDF_CORE_BASE_RNG_H_
