// Expected values: IEEE 754 binary16 and binary32 encodings worked out by hand, and the definition
// of round-to-nearest-even applied to every pair of neighbouring 16-bit values.
#include "core/tensor/dtype.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace gdf::tensor {
namespace {

float Bits(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t Bits(float value) { return std::bit_cast<uint32_t>(value); }

// The value of a finite binary16 or bfloat16 by the definition, in double.
double Value(uint32_t code, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
  const int exponent = static_cast<int>((code >> mantissa_bits) & ((1u << exponent_bits) - 1));
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                    : std::ldexp(mantissa + (1u << mantissa_bits), exponent - bias - mantissa_bits);
  return (code >> 15) != 0 ? -magnitude : magnitude;
}

TEST_CASE("dtype names and sizes are those of the safetensors format") {
  const std::vector<std::tuple<DType, std::string, size_t>> table = {
      {DType::kF32, "F32", 4}, {DType::kF16, "F16", 2}, {DType::kBF16, "BF16", 2},
      {DType::kI8, "I8", 1},   {DType::kU8, "U8", 1},   {DType::kI32, "I32", 4},
      {DType::kI64, "I64", 8}, {DType::kF64, "F64", 8}, {DType::kBool, "BOOL", 1}};
  for (const auto& [dtype, name, size] : table) {
    CHECK(DTypeName(dtype) == name);
    CHECK(DTypeSize(dtype) == size);
    REQUIRE(ParseDType(name).ok());
    CHECK(*ParseDType(name) == dtype);
  }
  CHECK(ParseDType("f32").status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(ParseDType("F8_E4M3").status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(ParseDType("").status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("bfloat16 conversion matches values worked out by hand") {
  CHECK(F32ToBf16(0.0f) == 0x0000);
  CHECK(F32ToBf16(-0.0f) == 0x8000);
  CHECK(F32ToBf16(1.0f) == 0x3F80);
  CHECK(F32ToBf16(-2.0f) == 0xC000);
  CHECK(F32ToBf16(Bits(0x40490FDBu)) == 0x4049);  // pi
  CHECK(F32ToBf16(1.0f + 0x1p-8f) == 0x3F80);     // tie, to the even 0x3F80
  CHECK(F32ToBf16(1.0f + 0x3p-8f) == 0x3F82);     // tie, to the even 0x3F82
  CHECK(F32ToBf16(Bits(0x3F808001u)) == 0x3F81);  // just above the tie
  CHECK(F32ToBf16(0x1p-133f) == 0x0001);          // smallest subnormal
  CHECK(F32ToBf16(0x1p-134f) == 0x0000);          // tie with zero
  CHECK(F32ToBf16(std::numeric_limits<float>::max()) == 0x7F80);
  CHECK(F32ToBf16(-std::numeric_limits<float>::infinity()) == 0xFF80);
  CHECK(F32ToBf16(Bits(0x7F800001u)) == 0x7FC0);  // a signalling NaN whose payload would vanish
  CHECK(F32ToBf16(Bits(0xFFFFFFFFu)) == 0xFFFF);  // a NaN that addition would carry away
}

TEST_CASE("binary16 conversion matches values worked out by hand") {
  CHECK(F32ToF16(0.0f) == 0x0000);
  CHECK(F32ToF16(-0.0f) == 0x8000);
  CHECK(F32ToF16(1.0f) == 0x3C00);
  CHECK(F32ToF16(-2.0f) == 0xC000);
  CHECK(F32ToF16(65504.0f) == 0x7BFF);           // largest
  CHECK(F32ToF16(Bits(0x477FEFFFu)) == 0x7BFF);  // just below 65520
  CHECK(F32ToF16(65520.0f) == 0x7C00);           // tie with 65536, which is infinity
  CHECK(F32ToF16(1e10f) == 0x7C00);
  CHECK(F32ToF16(0x1p-14f) == 0x0400);           // smallest normal
  CHECK(F32ToF16(0x1p-24f) == 0x0001);           // smallest subnormal
  CHECK(F32ToF16(0x1p-25f) == 0x0000);           // tie with zero
  CHECK(F32ToF16(Bits(0x33000001u)) == 0x0001);  // just above it
  CHECK(F32ToF16(-std::numeric_limits<float>::infinity()) == 0xFC00);
  CHECK(F32ToF16(Bits(0x7F800001u)) == 0x7E00);
  CHECK(F32ToF16(Bits(0xFFC00000u)) == 0xFE00);
  CHECK(F16ToF32(0x3555) == 0x1.554p-2f);  // nearest to 1/3
  CHECK(F16ToF32(0x7C00) == std::numeric_limits<float>::infinity());
  CHECK(std::isnan(F16ToF32(0x7C01)));
}

TEST_CASE("every 16-bit value has its value and comes back, midpoints go to even") {
  struct Format {
    const char* name;
    int exponent_bits, mantissa_bits;
    uint16_t (*from)(float);
    float (*to)(uint16_t);
  };
  for (const Format& f : {Format{"F16", 5, 10, F32ToF16, F16ToF32},
                          Format{"BF16", 8, 7, [](float v) { return F32ToBf16(v); },
                                 [](uint16_t v) { return Bf16ToF32(v); }}}) {
    INFO(f.name);
    const uint32_t infinity = ((1u << f.exponent_bits) - 1) << f.mantissa_bits;
    int wrong = 0;
    for (uint32_t sign = 0; sign <= 0x8000u; sign += 0x8000u) {
      for (uint32_t code = 0; code < infinity; ++code) {
        const auto word = static_cast<uint16_t>(sign | code);
        const float value = f.to(word);
        wrong += static_cast<double>(value) != Value(word, f.exponent_bits, f.mantissa_bits);
        wrong += f.from(value) != word;
        if (code + 1 == infinity) continue;
        // The midpoint to the next value is exact in float32.
        const auto next = static_cast<uint16_t>(word + 1);
        const auto midpoint =
            static_cast<float>((double{value} + Value(next, f.exponent_bits, f.mantissa_bits)) / 2);
        wrong += f.from(midpoint) != (code % 2 == 0 ? word : next);
        wrong += f.from(std::nextafter(midpoint, 0.0f)) != word;
        wrong += f.from(Bits(Bits(midpoint) + 1)) != next;  // one step away from zero
      }
      for (uint32_t code = infinity + 1; code < 0x8000u; ++code) {
        const float value = f.to(static_cast<uint16_t>(sign | code));
        wrong += !std::isnan(value) || (f.from(value) & 0x7FFFu) <= infinity;
      }
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("span conversions agree with the scalar ones at any length") {
  for (const size_t n : {0, 1, 3, 16, 17, 67}) {
    std::vector<float> values(n);
    for (size_t i = 0; i < n; ++i) values[i] = std::ldexp(1.0f + 0.37f * i, int(i % 40) - 20);
    std::vector<uint16_t> words(n);
    std::vector<float> back(n);
    ConvertF32ToBf16(values, absl::MakeSpan(words));
    ConvertBf16ToF32(words, absl::MakeSpan(back));
    for (size_t i = 0; i < n; ++i) CHECK(back[i] == Bf16ToF32(F32ToBf16(values[i])));
    ConvertF32ToF16(values, absl::MakeSpan(words));
    ConvertF16ToF32(words, absl::MakeSpan(back));
    for (size_t i = 0; i < n; ++i) CHECK(back[i] == F16ToF32(F32ToF16(values[i])));
  }
}

TEST_CASE("bytes convert at any alignment and only where it makes sense") {
  std::vector<uint8_t> storage(1 + 16);
  const absl::Span<uint8_t> odd = absl::MakeSpan(storage).subspan(1);
  const double doubles[] = {0.1, 1e300};
  std::memcpy(odd.data(), doubles, sizeof(doubles));
  std::vector<float> out(2);
  REQUIRE(ConvertToF32(DType::kF64, odd, absl::MakeSpan(out)).ok());
  CHECK(Bits(out[0]) == 0x3DCCCCCDu);  // 0.1 in float32
  CHECK(std::isinf(out[1]));

  const std::vector<float> in = {1.0f, -0.5f};
  REQUIRE(ConvertFromF32(in, DType::kBF16, odd.first(4)).ok());
  CHECK(std::vector<uint8_t>(odd.begin(), odd.begin() + 4) ==
        std::vector<uint8_t>{0x80, 0x3F, 0x00, 0xBF});
  REQUIRE(ConvertToF32(DType::kBF16, odd.first(4), absl::MakeSpan(out)).ok());
  CHECK(out == in);
  REQUIRE(ConvertFromF32(in, DType::kF16, odd.first(4)).ok());
  REQUIRE(ConvertToF32(DType::kF16, odd.first(4), absl::MakeSpan(out)).ok());
  CHECK(out == in);
  REQUIRE(ConvertFromF32(in, DType::kF32, odd.first(8)).ok());
  REQUIRE(ConvertToF32(DType::kF32, odd.first(8), absl::MakeSpan(out)).ok());
  CHECK(out == in);

  CHECK(!ConvertToF32(DType::kF32, odd.first(7), absl::MakeSpan(out)).ok());
  CHECK(!ConvertToF32(DType::kF32, odd.first(12), absl::MakeSpan(out)).ok());
  CHECK(!ConvertToF32(DType::kI64, odd, absl::MakeSpan(out)).ok());
  CHECK(!ConvertFromF32(in, DType::kF64, odd).ok());
  CHECK(!ConvertFromF32(in, DType::kF16, odd.first(5)).ok());
  CHECK(ConvertToF32(DType::kF32, {}, {}).ok());
}

}  // namespace
}  // namespace gdf::tensor
