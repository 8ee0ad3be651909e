// Our own binary formats: little-endian integers and length-prefixed bytes. ByteReader never reads beyond its end;
// it remembers the first failure, so that a parser checks once.
//
//   ByteReader in(bytes);
//   uint32_t count = in.U32();
//   std::string_view name = in.Bytes(in.U16());
//   if (!in.Done()) return absl::InvalidArgumentError(...);
#ifndef GDF_CORE_BASE_BYTE_IO_H_
#define GDF_CORE_BASE_BYTE_IO_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/hash.h"

namespace gdf {

class ByteWriter {
 public:
  ByteWriter& U8(uint8_t v) { return Number(v, 1); }
  ByteWriter& U16(uint16_t v) { return Number(v, 2); }
  ByteWriter& U32(uint32_t v) { return Number(v, 4); }
  ByteWriter& U64(uint64_t v) { return Number(v, 8); }
  ByteWriter& Bytes(std::string_view v) {
    out_.append(v);
    return *this;
  }
  template <size_t n>
  ByteWriter& Bytes(const std::array<uint8_t, n>& v) {
    return Bytes({reinterpret_cast<const char*>(v.data()), n});
  }
  const std::string& str() const { return out_; }
  std::string Take() { return std::move(out_); }

 private:
  ByteWriter& Number(uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) out_.push_back(static_cast<char>(v >> (8 * i)));
    return *this;
  }
  std::string out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : left_(bytes) {}

  uint8_t U8() { return static_cast<uint8_t>(Number(1)); }
  uint16_t U16() { return static_cast<uint16_t>(Number(2)); }
  uint32_t U32() { return static_cast<uint32_t>(Number(4)); }
  uint64_t U64() { return Number(8); }
  // A view of the next `size` bytes; empty once something failed.
  std::string_view Bytes(size_t size) {
    if (size > left_.size()) ok_ = false;
    if (!ok_) return {};
    const std::string_view bytes = left_.substr(0, size);
    left_.remove_prefix(size);
    return bytes;
  }
  template <size_t n>
  std::array<uint8_t, n> Array() {
    std::array<uint8_t, n> out{};
    const std::string_view bytes = Bytes(n);
    if (ok_) std::memcpy(out.data(), bytes.data(), n);
    return out;
  }
  gdf::Digest Digest() { return {Array<gdf::Digest::kSize>()}; }

  bool ok() const { return ok_; }
  size_t left() const { return left_.size(); }
  bool Done() const { return ok_ && left_.empty(); }  // all read, nothing missing, nothing left

 private:
  uint64_t Number(size_t bytes) {
    uint64_t v = 0;
    for (const char c : Bytes(bytes)) v = (v >> 8) | (uint64_t{static_cast<uint8_t>(c)} << 56);
    return v >> (64 - 8 * bytes);
  }
  std::string_view left_;
  bool ok_ = true;
};

}  // namespace gdf

#endif  // GDF_CORE_BASE_BYTE_IO_H_
