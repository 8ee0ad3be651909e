#include "core/compress/codec.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"

namespace gdf::compress {
namespace {

constexpr uint32_t kMagnitudeMask = 0x7FFFFFFFu;
constexpr int32_t kInfinityBits = 0x7F800000;

absl::Status BadPacked(const Codec& codec, const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat(
      codec.name(), " data: ", message, "; the sender is faulty or speaks another version"));
}

absl::Status CheckPackedSize(const Codec& codec, size_t num_bytes, size_t num_values) {
  if (num_bytes == codec.PackedSize(num_values)) return absl::OkStatus();
  return BadPacked(codec, absl::StrCat(num_bytes, " bytes for ", num_values, " values, expected ",
                                       codec.PackedSize(num_values)));
}

// What Decode and DecodeAccumulate do with a decoded value.
struct Assign {
  void operator()(float value, float* out) const { *out = value; }
};
struct Accumulate {
  float weight;
  void operator()(float value, float* acc) const {
    const float product = weight * value;
    *acc = *acc + product;
  }
};

// Values as they are, or cut to their upper half: one word of type Word each.
template <typename Word>
class PlainCodec final : public Codec {
 public:
  explicit PlainCodec(const CodecSpec& spec) : Codec(spec) {}

  uint64_t block() const override { return 1; }
  uint64_t PackedSize(uint64_t num_values) const override { return num_values * sizeof(Word); }

  void Encode(absl::Span<const float> in, absl::Span<uint8_t> out) const override {
    GDF_CHECK(out.size() == PackedSize(in.size()));
    uint8_t* to = out.data();
    for (const float value : in) {
      const Word word = ToWord(value);
      std::memcpy(to, &word, sizeof(Word));
      to += sizeof(Word);
    }
  }

  absl::Status Decode(absl::Span<const uint8_t> packed, absl::Span<float> out) const override {
    return Unpack(packed, out, Assign{});
  }

  absl::Status DecodeAccumulate(absl::Span<const uint8_t> packed, float weight,
                                absl::Span<float> acc) const override {
    return Unpack(packed, acc, Accumulate{weight});
  }

  double ErrorBound(float max_abs) const override {
    if constexpr (sizeof(Word) == sizeof(float)) return 0.0;
    // Half a unit in the last of 8 significant bits, and half the smallest subnormal.
    return double{max_abs} * 0x1p-8 + 0x1p-134;
  }

 private:
  static Word ToWord(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    if constexpr (sizeof(Word) == sizeof(float)) return bits;
    // Finite values past the largest bfloat16 become that, not infinity; all others become
    // infinity, which Decode refuses. Signed comparisons, since they are cheaper in SIMD code.
    constexpr int32_t kLargestBits = 0x7F7F0000;
    const auto magnitude = static_cast<int32_t>(bits & kMagnitudeMask);
    const int32_t finite = std::min(magnitude, kLargestBits);
    const auto kept = static_cast<uint32_t>(magnitude < kInfinityBits ? finite : kInfinityBits);
    const uint32_t rounded = kept + 0x7FFFu + ((kept >> 16) & 1u);
    return static_cast<Word>((rounded | (bits & ~kMagnitudeMask)) >> 16);
  }

  static uint32_t ToBits(Word word) {
    if constexpr (sizeof(Word) == sizeof(float)) return word;
    return uint32_t{word} << 16;
  }

  template <typename Use>
  absl::Status Unpack(absl::Span<const uint8_t> packed, absl::Span<float> out, Use use) const {
    GDF_RETURN_IF_ERROR(CheckPackedSize(*this, packed.size(), out.size()));
    const uint8_t* from = packed.data();
    uint32_t bad = 0;  // no early exit, so that the loop becomes SIMD code
    for (float& value : out) {
      Word word;
      std::memcpy(&word, from, sizeof(Word));
      from += sizeof(Word);
      const uint32_t bits = ToBits(word);
      bad |= ((bits & kMagnitudeMask) + 0x00800000u) & 0x80000000u;
      use(std::bit_cast<float>(bits), &value);
    }
    return bad == 0 ? absl::OkStatus() : BadPacked(*this, "a value is NaN or infinite");
  }
};

// Blocks of a float32 scale followed by one signed byte a value. See docs/formats/codecs.md, which
// numbers the operations.
class Int8Codec final : public Codec {
 public:
  explicit Int8Codec(const CodecSpec& spec) : Codec(spec) {}

  uint64_t block() const override { return spec().block; }

  uint64_t PackedSize(uint64_t num_values) const override {
    return num_values + (num_values + block() - 1) / block() * kScaleBytes;
  }

  void Encode(absl::Span<const float> in, absl::Span<uint8_t> out) const override {
    GDF_CHECK(out.size() == PackedSize(in.size()));
    uint8_t* to = out.data();
    for (size_t begin = 0; begin < in.size(); begin += block()) {
      const size_t count = std::min<size_t>(block(), in.size() - begin);
      EncodeBlock(in.data() + begin, count, to);
      to += kScaleBytes + count;
    }
  }

  absl::Status Decode(absl::Span<const uint8_t> packed, absl::Span<float> out) const override {
    return Unpack(packed, out, Assign{});
  }

  absl::Status DecodeAccumulate(absl::Span<const uint8_t> packed, float weight,
                                absl::Span<float> acc) const override {
    return Unpack(packed, acc, Accumulate{weight});
  }

  double ErrorBound(float max_abs) const override {
    if (max_abs == 0.0f) return 0.0;
    // Half a step; the last factor covers the roundings of scale, quotient and product, each 2^-24
    // of at most 127 steps.
    const double step = std::max(double{max_abs} / kLevels, double{kMinScale});
    return 0.5 * step * (1.0 + 0x1p-14);
  }

 private:
  static constexpr size_t kScaleBytes = sizeof(float);
  static constexpr float kLevels = 127.0f;
  // A scale is never subnormal, so that its reciprocal is finite and no flush-to-zero mode matters.
  static constexpr float kMinScale = FLT_MIN;
  // The largest float32 whose 127-fold is finite.
  static constexpr float kMaxScale = 0x1.020406p+121f;

  static void EncodeBlock(const float* in, size_t count, uint8_t* out) {
    int32_t max_bits = 0;  // magnitudes order like their bits
    for (size_t i = 0; i < count; ++i) {
      const uint32_t magnitude = std::bit_cast<uint32_t>(in[i]) & kMagnitudeMask;
      max_bits = std::max(max_bits, static_cast<int32_t>(magnitude));
    }
    const float max_abs = std::bit_cast<float>(max_bits);
    float scale = 0.0f;
    float inverse = 0.0f;
    if (max_bits != 0) {
      scale = std::clamp(max_abs / kLevels, kMinScale, kMaxScale);
      inverse = 1.0f / scale;
    }
    std::memcpy(out, &scale, kScaleBytes);
    auto* to = reinterpret_cast<int8_t*>(out + kScaleBytes);
    for (size_t i = 0; i < count; ++i) {
      const float level = std::clamp(in[i] * inverse, -kLevels, kLevels);
      to[i] = static_cast<int8_t>(RoundToEven(level));
    }
  }

  // Nearest integer, ties to even, of |value| <= 127 (anything for a NaN). Adding 1.5 * 2^23 leaves
  // the integer in the low bits of the sum, rounded by the addition itself; unlike a call of rint
  // this becomes SIMD code on every target.
  static int32_t RoundToEven(float value) {
    constexpr float kShift = 0x1.8p23f;
    return std::bit_cast<int32_t>(value + kShift) - std::bit_cast<int32_t>(kShift);
  }

  template <typename Use>
  absl::Status Unpack(absl::Span<const uint8_t> packed, absl::Span<float> out, Use use) const {
    GDF_RETURN_IF_ERROR(CheckPackedSize(*this, packed.size(), out.size()));
    const uint8_t* from = packed.data();
    for (size_t begin = 0; begin < out.size(); begin += block()) {
      const size_t count = std::min<size_t>(block(), out.size() - begin);
      float scale;
      std::memcpy(&scale, from, kScaleBytes);
      if (!(scale == 0.0f || (scale >= kMinScale && scale <= kMaxScale)) || std::signbit(scale)) {
        return BadPacked(*this,
                         absl::StrCat("the scale of the block at value ", begin, " is ", scale,
                                      ", expected 0 or ", kMinScale, " to ", kMaxScale));
      }
      const auto* levels = reinterpret_cast<const int8_t*>(from + kScaleBytes);
      float* to = out.data() + begin;
      uint32_t bad = 0;
      for (size_t i = 0; i < count; ++i) {
        bad |= levels[i] == INT8_MIN;
        use(scale * static_cast<float>(levels[i]), to + i);
      }
      if (bad != 0) {
        return BadPacked(
            *this, absl::StrCat("the block at value ", begin, " holds -128, expected -127 to 127"));
      }
      from += kScaleBytes + count;
    }
    return absl::OkStatus();
  }
};

}  // namespace

absl::StatusOr<CodecSpec> CodecSpec::Parse(std::string_view text) {
  if (text == "fp32") return CodecSpec{CodecKind::kFp32};
  if (text == "bf16") return CodecSpec{CodecKind::kBf16};
  if (text == "int8") return CodecSpec{CodecKind::kInt8};
  CodecSpec spec{CodecKind::kInt8};
  constexpr std::string_view kPrefix = "int8:";
  const std::string digits(text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : "");
  // The text must be the one that ToString gives: no sign, space or leading zero.
  if (absl::SimpleAtoi(digits, &spec.block) && absl::StrCat(spec.block) == digits &&
      Codec::Create(spec).ok()) {
    return spec;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "codec \"", std::string(text.substr(0, 32)), "\", expected fp32, bf16, int8 or int8:BLOCK ",
      "with BLOCK a power of two from ", kMinBlock, " to ", kMaxBlock));
}

std::string CodecSpec::ToString() const {
  switch (kind) {
    case CodecKind::kFp32:
      return "fp32";
    case CodecKind::kBf16:
      return "bf16";
    case CodecKind::kInt8:
      return absl::StrCat("int8:", block);
  }
  return absl::StrCat("codec ", static_cast<int>(kind));
}

absl::StatusOr<std::unique_ptr<Codec>> Codec::Create(const CodecSpec& spec) {
  switch (spec.kind) {
    case CodecKind::kFp32:
      return std::make_unique<PlainCodec<uint32_t>>(spec);
    case CodecKind::kBf16:
      return std::make_unique<PlainCodec<uint16_t>>(spec);
    case CodecKind::kInt8:
      if (std::has_single_bit(spec.block) && spec.block >= CodecSpec::kMinBlock &&
          spec.block <= CodecSpec::kMaxBlock) {
        return std::make_unique<Int8Codec>(spec);
      }
      return absl::InvalidArgumentError(
          absl::StrCat("codec int8: block is ", spec.block, ", expected a power of two from ",
                       CodecSpec::kMinBlock, " to ", CodecSpec::kMaxBlock));
  }
  return absl::InvalidArgumentError(absl::StrCat("codec kind ", static_cast<int>(spec.kind),
                                                 ", expected 1 (fp32), 2 (bf16) or ",
                                                 "3 (int8); the sender speaks another version"));
}

}  // namespace gdf::compress
