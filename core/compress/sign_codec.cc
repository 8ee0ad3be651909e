// Blocks of a float32 scale, the mean magnitude, followed by a sign bit a value. See
// docs/formats/codecs.md.
#include <algorithm>
#include <cfloat>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/compress/bits.h"
#include "core/compress/codecs.h"
#include "core/compress/values.h"

namespace gdf::compress {
namespace {

class SignCodec final : public Codec {
 public:
  SignCodec(const CodecSpec& spec, const Kernels& kernels) : Codec(spec), kernels_(kernels) {}

  bool is_dense() const override { return false; }
  uint64_t block() const override { return spec().block; }

  uint64_t PackedSize(uint64_t num_values) const override {
    const uint64_t rest = num_values % block();
    return num_values / block() * BlockBytes(block()) + (rest > 0 ? BlockBytes(rest) : 0);
  }

  void Encode(absl::Span<const float> in, absl::Span<uint8_t> out) const override {
    GDF_CHECK(out.size() == PackedSize(in.size()));
    uint8_t* to = out.data();
    for (size_t begin = 0; begin < in.size(); begin += block()) {
      const size_t count = std::min<size_t>(block(), in.size() - begin);
      const float sum = kernels_.sum_magnitudes(in.data() + begin, count);
      const float mean = std::min(sum * (1.0f / kSumUnit / static_cast<float>(count)), FLT_MAX);
      const float scale = mean < FLT_MIN ? 0.0f : mean;
      std::memcpy(to, &scale, kScaleBytes);
      kernels_.sign.encode(in.data() + begin, count, 0.0f, to + kScaleBytes);
      to += BlockBytes(count);
    }
  }

  absl::Status Decode(absl::Span<const uint8_t> packed, absl::Span<float> out) const override {
    return ForBlocks(packed, out, [this](const uint8_t* bits, size_t count, float scale, float* to) {
      return kernels_.sign.decode(bits, count, scale, to);
    });
  }

  absl::Status DecodeAccumulate(absl::Span<const uint8_t> packed, float weight,
                                absl::Span<float> acc) const override {
    return ForBlocks(packed, acc, [&](const uint8_t* bits, size_t count, float scale, float* to) {
      return kernels_.sign.accumulate(bits, count, scale, weight, to);
    });
  }

  double ErrorBound(float max_abs) const override {
    // The mean is at most max_abs but for the roundings of a sum of 4096.
    return double{max_abs} * (1.0 + 0x1p-14) + 0x1p-126;
  }

 private:
  static constexpr uint64_t kScaleBytes = sizeof(float);

  static uint64_t BlockBytes(uint64_t count) { return kScaleBytes + BytesOfBits(count); }

  template <typename Loop>
  absl::Status ForBlocks(absl::Span<const uint8_t> packed, absl::Span<float> values,
                         Loop loop) const {
    GDF_RETURN_IF_ERROR(CheckPackedSize(*this, packed.size(), values.size()));
    const uint8_t* from = packed.data();
    for (size_t begin = 0; begin < values.size(); begin += block()) {
      const size_t count = std::min<size_t>(block(), values.size() - begin);
      float scale;
      std::memcpy(&scale, from, kScaleBytes);
      if (!IsScale(scale, FLT_MAX) || !loop(from + kScaleBytes, count, scale, values.data() + begin)) {
        return BadPacked(*this, absl::StrCat("the block at value ", begin, " has a scale of ", scale,
                                             " or bits beyond its end that nothing is encoded to"));
      }
      from += BlockBytes(count);
    }
    return absl::OkStatus();
  }

  const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Codec> MakeSignCodec(const CodecSpec& spec, const Kernels& kernels) {
  return std::make_unique<SignCodec>(spec, kernels);
}

}  // namespace gdf::compress
