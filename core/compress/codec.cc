#include "core/compress/codec.h"

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/compress/bits.h"
#include "core/compress/codecs.h"
#include "core/compress/kernels.h"
#include "core/compress/philox.h"
#include "core/compress/values.h"

namespace gdf::compress {
namespace {

// |x - decoded| <= relative * |x| + absolute.
struct WordError {
  double relative;
  double absolute;
};

// A word a value.
class WordCodec final : public Codec {
 public:
  WordCodec(const CodecSpec& spec, uint64_t bytes, const WordLoops& loops, const WordError& error)
      : Codec(spec), bytes_(bytes), loops_(loops), error_(error) {}

  bool is_dense() const override { return true; }
  bool is_verbatim() const override {
    return spec().kind == CodecKind::kFp32 && std::endian::native == std::endian::little;
  }
  uint64_t block() const override { return 1; }
  uint64_t PackedSize(uint64_t num_values) const override { return num_values * bytes_; }

  void DoEncode(absl::Span<const float> in, absl::Span<uint8_t> out, const Rounding&) const override {
    loops_.encode(in.data(), in.size(), out.data());
  }

  absl::Status Decode(absl::Span<const uint8_t> packed, absl::Span<float> out) const override {
    GDF_RETURN_IF_ERROR(CheckPackedSize(*this, packed.size(), out.size()));
    return Checked(loops_.decode(packed.data(), out.size(), out.data()));
  }

  absl::Status DecodeAccumulate(absl::Span<const uint8_t> packed, float weight,
                                absl::Span<float> acc) const override {
    GDF_RETURN_IF_ERROR(CheckPackedSize(*this, packed.size(), acc.size()));
    return Checked(loops_.accumulate(packed.data(), acc.size(), weight, acc.data()));
  }

  double ErrorBound(float max_abs) const override {
    return double{max_abs} * error_.relative + error_.absolute;
  }

 private:
  absl::Status Checked(bool good) const {
    return good ? absl::OkStatus() : BadPacked(*this, "a value is NaN or infinite");
  }

  const uint64_t bytes_;
  const WordLoops& loops_;
  const WordError error_;
};

// The scale of a block of `count` values, from 0 or kMinScale to the format's largest.
using ScaleOf = float (*)(const Kernels& kernels, const float* in, size_t count);

// What tells the block codecs apart.
struct CodeFormat {
  bool is_dense;
  uint64_t bits;         // of a code
  float levels;          // the largest value that a code stands for, times the scale
  float max_scale;       // the largest whose product with `levels` is finite
  ScaleOf scale_of;
  double largest_error;  // in scales that make `levels` times them the largest magnitude
  const char* unused;    // what encoding never writes
};

// So that the largest level is the largest magnitude.
template <typename Code>
float ScaleOfLargest(const Kernels& kernels, const float* in, size_t count) {
  return ScaleFor(std::bit_cast<float>(kernels.max_magnitude(in, count)), Code::kLevels, Code::kMaxScale);
}

float MeanMagnitude(const Kernels& kernels, const float* in, size_t count) {
  return MeanOf(kernels.sum_magnitudes(in, count), count);
}

template <typename Code>
constexpr CodeFormat FormatOf(double largest_error, const char* unused) {
  return {true, Code::kBits, Code::kLevels, Code::kMaxScale, ScaleOfLargest<Code>, largest_error, unused};
}
constexpr CodeFormat kInt8Format = FormatOf<Int8Code>(0.5, "-128");
constexpr CodeFormat kInt4Format = FormatOf<Int4Code>(0.5, "-8");
// By chance to either neighbour, so up to a step away.
constexpr CodeFormat kStochasticInt8Format = FormatOf<Int8Code>(1.0, "-128");
constexpr CodeFormat kStochasticInt4Format = FormatOf<Int4Code>(1.0, "-8");
constexpr CodeFormat kFp4Format = FormatOf<Fp4Code>(1.0, "-0");
// The mean is at most the largest magnitude, but for the roundings of a sum of 4096, which ErrorBound's factor covers.
constexpr CodeFormat kSignFormat = {false, 1, 1.0f, FLT_MAX, MeanMagnitude, 1.0, "bits beyond its end"};

// Blocks of a float32 scale followed by a code a value. See docs/formats/codecs.md.
class BlockCodec final : public Codec {
 public:
  BlockCodec(const CodecSpec& spec, const CodeFormat& format, const Kernels& kernels,
             const CodeLoops& loops, EncodeStochastic stochastic = nullptr)
      : Codec(spec), format_(format), kernels_(kernels), loops_(loops), stochastic_(stochastic) {}

  bool is_dense() const override { return format_.is_dense; }
  uint64_t block() const override { return spec().block; }

  uint64_t PackedSize(uint64_t num_values) const override {
    const uint64_t rest = num_values % block();
    return num_values / block() * BlockBytes(block()) + (rest > 0 ? BlockBytes(rest) : 0);
  }

  void DoEncode(absl::Span<const float> in, absl::Span<uint8_t> out, const Rounding& rounding) const override {
    uint8_t* to = out.data();
    for (size_t begin = 0; begin < in.size(); begin += block()) {
      const size_t count = std::min<size_t>(block(), in.size() - begin);
      const float scale = format_.scale_of(kernels_, in.data() + begin, count);
      std::memcpy(to, &scale, kScaleBytes);
      const float inverse = InverseOf(scale);
      if (stochastic_ == nullptr) {
        loops_.encode(in.data() + begin, count, inverse, to + kScaleBytes);
      } else {
        EncodeByChance(in.subspan(begin, count), inverse, {rounding.seed, rounding.first + begin}, to + kScaleBytes);
      }
      to += BlockBytes(count);
    }
  }

  absl::Status Decode(absl::Span<const uint8_t> packed, absl::Span<float> out) const override {
    return ForBlocks(packed, out, [this](const uint8_t* codes, size_t count, float scale, float* to) {
      return loops_.decode(codes, count, scale, to);
    });
  }

  absl::Status DecodeAccumulate(absl::Span<const uint8_t> packed, float weight,
                                absl::Span<float> acc) const override {
    return ForBlocks(packed, acc,
                     [&](const uint8_t* codes, size_t count, float scale, float* to) {
                       return loops_.accumulate(codes, count, scale, weight, to);
                     });
  }

  double ErrorBound(float max_abs) const override {
    if (max_abs == 0.0f) return 0.0;
    // The last factor covers the roundings of scale, quotient and product, each 2^-24 of at most 127
    // scales.
    const double scale = std::max(double{max_abs} / format_.levels, double{kMinScale});
    return format_.largest_error * scale * (1.0 + 0x1p-14);
  }

 private:
  static constexpr uint64_t kScaleBytes = sizeof(float);

  void EncodeByChance(absl::Span<const float> in, float inverse, const Rounding& rounding, uint8_t* out) const {
    static_assert(CodecSpec::kMinBlock % kRandomGroup == 0);
    uint32_t words[kRandomGroup];
    for (size_t begin = 0; begin < in.size(); begin += kRandomGroup) {
      kernels_.random(rounding.seed, (rounding.first + begin) / kRandomGroup, words);
      const size_t count = std::min(kRandomGroup, in.size() - begin);
      stochastic_(in.data() + begin, count, inverse, words, out + begin * format_.bits / 8);
    }
  }

  uint64_t BlockBytes(uint64_t count) const { return kScaleBytes + BytesOfBits(count * format_.bits); }

  template <typename Loop>
  absl::Status ForBlocks(absl::Span<const uint8_t> packed, absl::Span<float> values,
                         Loop loop) const {
    GDF_RETURN_IF_ERROR(CheckPackedSize(*this, packed.size(), values.size()));
    const uint8_t* from = packed.data();
    for (size_t begin = 0; begin < values.size(); begin += block()) {
      const size_t count = std::min<size_t>(block(), values.size() - begin);
      float scale;
      std::memcpy(&scale, from, kScaleBytes);
      if (!IsScale(scale, format_.max_scale)) {
        return BadPacked(*this, absl::StrCat("the scale of the block at value ", begin, " is ",
                                             scale, ", expected 0 or ", kMinScale, " to ",
                                             format_.max_scale));
      }
      if (!loop(from + kScaleBytes, count, scale, values.data() + begin)) {
        return BadPacked(*this, absl::StrCat("the block at value ", begin, " holds ",
                                             format_.unused, ", which nothing is encoded to"));
      }
      from += BlockBytes(count);
    }
    return absl::OkStatus();
  }

  const CodeFormat& format_;
  const Kernels& kernels_;
  const CodeLoops& loops_;
  const EncodeStochastic stochastic_;  // null: to the nearest
};

}  // namespace

void Codec::Encode(absl::Span<const float> in, absl::Span<uint8_t> out, const Rounding& rounding) const {
  GDF_CHECK(out.size() == PackedSize(in.size()) && rounding.first % block() == 0);
  DoEncode(in, out, rounding);
}

absl::Status BadPacked(const Codec& codec, const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat(
      codec.name(), " data: ", message, "; the sender is faulty or speaks another version"));
}

absl::Status CheckPackedSize(const Codec& codec, size_t num_bytes, size_t num_values) {
  if (num_bytes == codec.PackedSize(num_values)) return absl::OkStatus();
  return BadPacked(codec, absl::StrCat(num_bytes, " bytes for ", num_values, " values, expected ",
                                       codec.PackedSize(num_values)));
}

absl::StatusOr<std::unique_ptr<Codec>> Codec::Create(const CodecSpec& spec) {
  GDF_RETURN_IF_ERROR(spec.Check());
  const Kernels& kernels = SimdKernels();
  switch (spec.kind) {
    case CodecKind::kFp32:
      return std::make_unique<WordCodec>(spec, 4, kernels.fp32, WordError{0.0, 0.0});
    case CodecKind::kBf16:
      // Half a unit in the last of 8 significant bits, and half the smallest subnormal.
      return std::make_unique<WordCodec>(spec, 2, kernels.bf16, WordError{0x1p-8, 0x1p-134});
    case CodecKind::kFp16:
      return std::make_unique<WordCodec>(spec, 2, kernels.fp16, WordError{0x1p-11, 0x1p-25});
    case CodecKind::kInt8:
      return std::make_unique<BlockCodec>(spec, spec.stochastic ? kStochasticInt8Format : kInt8Format, kernels,
                                          kernels.int8, spec.stochastic ? kernels.int8_stochastic : nullptr);
    case CodecKind::kInt4:
      return std::make_unique<BlockCodec>(spec, spec.stochastic ? kStochasticInt4Format : kInt4Format, kernels,
                                          kernels.int4, spec.stochastic ? kernels.int4_stochastic : nullptr);
    case CodecKind::kFp4:
      return std::make_unique<BlockCodec>(spec, kFp4Format, kernels, kernels.fp4);
    case CodecKind::kSign:
      return std::make_unique<BlockCodec>(spec, kSignFormat, kernels, kernels.sign);
    case CodecKind::kTopK2:
    case CodecKind::kTopK8:
      return MakeTopKCodec(spec, kernels);
    case CodecKind::kDct:
      return MakeDctCodec(spec, kernels);
  }
  return spec.Check();
}

}  // namespace gdf::compress
