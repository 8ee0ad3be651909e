#include "core/tensor/dtype.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace gdf::tensor {

static_assert(std::endian::native == std::endian::little, "formats are little-endian in memory");

namespace {

struct DTypeInfo {
  DType dtype;
  size_t size;
  const char* name;
};

// In the order of the enumeration.
constexpr DTypeInfo kDTypes[] = {
    {DType::kF32, 4, "F32"}, {DType::kF16, 2, "F16"}, {DType::kBF16, 2, "BF16"},
    {DType::kI8, 1, "I8"},   {DType::kU8, 1, "U8"},   {DType::kI32, 4, "I32"},
    {DType::kI64, 8, "I64"}, {DType::kF64, 8, "F64"}, {DType::kBool, 1, "BOOL"},
};

const DTypeInfo& Info(DType dtype) { return kDTypes[static_cast<size_t>(dtype)]; }

absl::Status CheckBytes(DType dtype, size_t num_elems, size_t num_bytes) {
  if (num_bytes / DTypeSize(dtype) == num_elems && num_bytes % DTypeSize(dtype) == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(num_bytes, " bytes given for ", num_elems, " ",
                                                 DTypeName(dtype), " elements, expected ",
                                                 DTypeSize(dtype), " bytes each"));
}

// Loads and stores go through memcpy, since file data lies at any alignment; compilers turn both
// into plain moves.
template <typename T, typename F>
void Load(absl::Span<const uint8_t> bytes, absl::Span<float> out, F to_f32) {
  const uint8_t* from = bytes.data();
  for (float& value : out) {
    T raw;
    std::memcpy(&raw, from, sizeof(T));
    value = to_f32(raw);
    from += sizeof(T);
  }
}

template <typename T, typename F>
void Store(absl::Span<const float> in, absl::Span<uint8_t> bytes, F from_f32) {
  uint8_t* to = bytes.data();
  for (const float value : in) {
    const T raw = from_f32(value);
    std::memcpy(to, &raw, sizeof(T));
    to += sizeof(T);
  }
}

}  // namespace

size_t DTypeSize(DType dtype) { return Info(dtype).size; }

const char* DTypeName(DType dtype) { return Info(dtype).name; }

absl::StatusOr<DType> ParseDType(std::string_view name) {
  for (const DTypeInfo& info : kDTypes) {
    if (name == info.name) return info.dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("dtype \"", std::string(name.substr(0, 32)),
                   "\" is unknown, expected F32, F16, BF16, F64, I8, U8, I32, ",
                   "I64 or BOOL; convert the tensor to one of them"));
}

uint16_t F32ToF16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  uint32_t half;
  if (magnitude > 0x7F800000u) {  // NaN: quiet, upper payload kept
    half = 0x7E00u | ((magnitude >> 13) & 0x03FFu);
  } else if (magnitude >= 0x47800000u) {  // 2^16 and above, infinity too
    half = 0x7C00u;
  } else if (magnitude >= 0x38800000u) {  // 2^-14 and above: normal; a carry may reach infinity
    const uint32_t rebased = magnitude - (112u << 23);
    half = (rebased + 0x0FFFu + ((rebased >> 13) & 1u)) >> 13;
  } else {
    // Subnormal: adding 0.5 puts the unit of binary16 (2^-24) in the last place of the sum, so the
    // processor's addition does the rounding.
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<uint32_t>(sum) - 0x3F000000u;
  }
  return static_cast<uint16_t>(sign | half);
}

float F16ToF32(uint16_t value) {
  const uint32_t sign = static_cast<uint32_t>(value & 0x8000u) << 16;
  const uint32_t exponent = (value >> 10) & 0x1Fu;
  const uint32_t mantissa = value & 0x03FFu;
  if (exponent == 0) {  // zero and subnormal: mantissa * 2^-24, exact in float32
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  if (exponent == 31) {
    const uint32_t quiet = mantissa != 0 ? 0x00400000u : 0u;
    return std::bit_cast<float>(sign | 0x7F800000u | (mantissa << 13) | quiet);
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

void ConvertF32ToBf16(absl::Span<const float> in, absl::Span<uint16_t> out) {
  GDF_CHECK(in.size() == out.size());
  std::transform(in.begin(), in.end(), out.begin(), F32ToBf16);
}

void ConvertBf16ToF32(absl::Span<const uint16_t> in, absl::Span<float> out) {
  GDF_CHECK(in.size() == out.size());
  std::transform(in.begin(), in.end(), out.begin(), Bf16ToF32);
}

void ConvertF32ToF16(absl::Span<const float> in, absl::Span<uint16_t> out) {
  GDF_CHECK(in.size() == out.size());
  std::transform(in.begin(), in.end(), out.begin(), F32ToF16);
}

void ConvertF16ToF32(absl::Span<const uint16_t> in, absl::Span<float> out) {
  GDF_CHECK(in.size() == out.size());
  std::transform(in.begin(), in.end(), out.begin(), F16ToF32);
}

absl::Status ConvertToF32(DType dtype, absl::Span<const uint8_t> bytes, absl::Span<float> out) {
  if (absl::Status status = CheckBytes(dtype, out.size(), bytes.size()); !status.ok()) {
    return status;
  }
  switch (dtype) {
    case DType::kF32:
      if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
      return absl::OkStatus();
    case DType::kF16:
      Load<uint16_t>(bytes, out, F16ToF32);
      return absl::OkStatus();
    case DType::kBF16:
      Load<uint16_t>(bytes, out, Bf16ToF32);
      return absl::OkStatus();
    case DType::kF64:
      Load<double>(bytes, out, [](double value) { return static_cast<float>(value); });
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("dtype ", DTypeName(dtype),
                       " cannot be read as parameters, expected F32, F16, BF16 or F64"));
  }
}

absl::Status ConvertFromF32(absl::Span<const float> in, DType dtype, absl::Span<uint8_t> bytes) {
  if (absl::Status status = CheckBytes(dtype, in.size(), bytes.size()); !status.ok()) return status;
  switch (dtype) {
    case DType::kF32:
      if (!in.empty()) std::memcpy(bytes.data(), in.data(), bytes.size());
      return absl::OkStatus();
    case DType::kF16:
      Store<uint16_t>(in, bytes, F32ToF16);
      return absl::OkStatus();
    case DType::kBF16:
      Store<uint16_t>(in, bytes, F32ToBf16);
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "parameters cannot be written as ", DTypeName(dtype), ", expected F32, F16 or BF16"));
  }
}

}  // namespace gdf::tensor
