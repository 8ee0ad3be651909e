// Fields of a few bits, one after the other from the lowest bit of the first byte. Internal to
// compress.
#ifndef GDF_CORE_COMPRESS_BITS_H_
#define GDF_CORE_COMPRESS_BITS_H_

#include <cstddef>
#include <cstdint>

namespace gdf::compress {

constexpr size_t BytesOfBits(size_t bits) { return (bits + 7) / 8; }

// Writes to bytes that are zero.
class BitWriter {
 public:
  explicit BitWriter(uint8_t* out) : out_(out) {}
  // `value` < 2^bits, at most 24 of them.
  void Put(uint32_t value, size_t bits) {
    for (uint64_t rest = uint64_t{value} << (at_ % 8), byte = at_ / 8; rest != 0; rest >>= 8) {
      out_[byte++] |= static_cast<uint8_t>(rest);
    }
    at_ += bits;
  }
  void Skip(size_t bits) { at_ += bits; }

 private:
  uint8_t* out_;
  size_t at_ = 0;
};

// Reads `bits` at most 24 bits from bit `at` of `size` bytes, which hold them.
constexpr uint32_t GetBits(const uint8_t* in, size_t size, size_t at, size_t bits) {
  uint32_t word = 0;
  for (size_t byte = at / 8, shift = 0; shift < bits + at % 8 && byte < size; ++byte, shift += 8) {
    word |= uint32_t{in[byte]} << shift;
  }
  return word >> (at % 8) & ((1u << bits) - 1u);
}

}  // namespace gdf::compress

#endif  // GDF_CORE_COMPRESS_BITS_H_
