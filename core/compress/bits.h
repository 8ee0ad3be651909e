// Fields of a few bits, one after the other from the lowest bit of the first byte. Internal to
// compress.
#ifndef GDF_CORE_COMPRESS_BITS_H_
#define GDF_CORE_COMPRESS_BITS_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gdf::compress {

static_assert(std::endian::native == std::endian::little);

constexpr size_t BytesOfBits(size_t bits) { return (bits + 7) / 8; }

// Writes every byte that it comes to, the last one by Finish.
class BitWriter {
 public:
  explicit BitWriter(uint8_t* out) : out_(out) {}
  // `value` < 2^bits, at most 24 of them.
  void Put(uint32_t value, size_t bits) {
    held_ |= uint64_t{value} << num_held_;
    num_held_ += bits;
    if (num_held_ < 32) return;
    std::memcpy(out_, &held_, sizeof(uint32_t));
    out_ += sizeof(uint32_t);
    held_ >>= 32;
    num_held_ -= 32;
  }
  void Finish() { std::memcpy(out_, &held_, BytesOfBits(num_held_)); }

 private:
  uint8_t* out_;
  uint64_t held_ = 0;
  size_t num_held_ = 0;  // bits
};

// Reads what a BitWriter wrote; zeros after its end.
class BitReader {
 public:
  BitReader(const uint8_t* in, size_t size) : in_(in), size_(size) {}
  // At most 24 bits.
  uint32_t Get(size_t bits) {
    if (num_held_ < bits) Refill();
    const auto value = static_cast<uint32_t>(held_) & ((1u << bits) - 1u);
    held_ >>= bits;
    num_held_ -= bits;
    return value;
  }

 private:
  void Refill() {
    uint32_t next = 0;
    if (size_ >= sizeof(next)) {
      std::memcpy(&next, in_, sizeof(next));
      in_ += sizeof(next);
      size_ -= sizeof(next);
    } else {
      if (size_ > 0) std::memcpy(&next, in_, size_);
      size_ = 0;
    }
    held_ |= uint64_t{next} << num_held_;
    num_held_ += 32;
  }

  const uint8_t* in_;
  size_t size_;
  uint64_t held_ = 0;
  size_t num_held_ = 0;  // bits
};

// One field by itself, as threads of a GPU read them: `bits` at most 24 bits from bit `at` of `size`
// bytes, which hold them.
constexpr uint32_t GetBits(const uint8_t* in, size_t size, size_t at, size_t bits) {
  uint32_t word = 0;
  for (size_t byte = at / 8, shift = 0; shift < bits + at % 8 && byte < size; ++byte, shift += 8) {
    word |= uint32_t{in[byte]} << shift;
  }
  return word >> (at % 8) & ((1u << bits) - 1u);
}

}  // namespace gdf::compress

#endif  // GDF_CORE_COMPRESS_BITS_H_
