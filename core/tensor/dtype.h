// Element types, their names in safetensors files, and bit-exact conversions to and from float32.
//
//   GDF_ASSIGN_OR_RETURN(DType dtype, ParseDType("BF16"));
//   ConvertToF32(dtype, bytes, values);
#ifndef GDF_CORE_TENSOR_DTYPE_H_
#define GDF_CORE_TENSOR_DTYPE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gdf::tensor {

enum class DType : uint8_t { kF32, kF16, kBF16, kI8, kU8, kI32, kI64, kF64, kBool };

// Bytes of one element.
size_t DTypeSize(DType dtype);

// The name of the safetensors format: "F32", "F16", "BF16", "I8", "U8", "I32", "I64", "F64",
// "BOOL".
const char* DTypeName(DType dtype);

// The inverse of DTypeName. kInvalidArgument for any other name.
absl::StatusOr<DType> ParseDType(std::string_view name);

// float32 -> bfloat16, round to nearest, ties to even. Overflow gives infinity; a NaN stays a NaN
// (made quiet, sign and upper payload kept).
constexpr uint16_t F32ToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x0040u;
  return static_cast<uint16_t>((bits & 0x7FFFFFFFu) > 0x7F800000u ? quiet_nan : rounded);
}

// bfloat16 -> float32, exact.
constexpr float Bf16ToF32(uint16_t value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
}

// float32 -> IEEE binary16, round to nearest, ties to even, subnormals included. Overflow gives
// infinity; a NaN stays a NaN (made quiet, sign and upper payload kept).
uint16_t F32ToF16(float value);

// IEEE binary16 -> float32, exact (NaN made quiet).
float F16ToF32(uint16_t value);

// The same over spans. `in` and `out` have the same length.
void ConvertF32ToBf16(absl::Span<const float> in, absl::Span<uint16_t> out);
void ConvertBf16ToF32(absl::Span<const uint16_t> in, absl::Span<float> out);
void ConvertF32ToF16(absl::Span<const float> in, absl::Span<uint16_t> out);
void ConvertF16ToF32(absl::Span<const uint16_t> in, absl::Span<float> out);

// Reads [out.size()] little-endian elements of `dtype` out of `bytes`, at any alignment, as
// float32. kF64 is rounded to nearest even. kInvalidArgument when `dtype` is not a floating-point
// type or `bytes` is not out.size() * DTypeSize(dtype) long.
absl::Status ConvertToF32(DType dtype, absl::Span<const uint8_t> bytes, absl::Span<float> out);

// Writes `in` as little-endian elements of `dtype` (kF32, kF16 or kBF16) at any alignment.
// kInvalidArgument for other types or when `bytes` is not in.size() * DTypeSize(dtype) long.
absl::Status ConvertFromF32(absl::Span<const float> in, DType dtype, absl::Span<uint8_t> bytes);

}  // namespace gdf::tensor

#endif  // GDF_CORE_TENSOR_DTYPE_H_
