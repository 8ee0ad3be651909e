// Of each chunk of 64 values the k largest coefficients of its DCT-II, as DeMo sends them (Peng,
// Quesnelle, Kingma 2024, arXiv:2411.19870). See docs/formats/codecs.md.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/compress/bits.h"
#include "core/compress/codecs.h"
#include "core/compress/dct.h"
#include "core/compress/values.h"

namespace gdf::compress {
namespace {

constexpr size_t kScaleBytes = sizeof(float);
static_assert(kDctBlock == CodecSpec::kChunk && kMaxDctKept == kDctBlock / kDctSize * CodecSpec::kMaxDctK);

// Of a block: the coefficients that are kept, chunk after chunk.
struct Kept {
  std::array<float, kMaxDctKept> values;
  std::array<uint8_t, kMaxDctKept> indices;
};

class DctCodec final : public Codec {
 public:
  DctCodec(const CodecSpec& spec, const Kernels& kernels) : Codec(spec), kernels_(kernels) {}

  bool is_dense() const override { return false; }
  uint64_t block() const override { return CodecSpec::kChunk; }

  uint64_t PackedSize(uint64_t num_values) const override {
    const uint64_t rest = num_values % block();
    return num_values / block() * BlockBytes(block()) + (rest > 0 ? BlockBytes(rest) : 0);
  }

  absl::Status Decode(absl::Span<const uint8_t> packed, absl::Span<float> out) const override {
    return ForBlocks(packed, out, [this](const Kept& kept, absl::Span<float> to) {
      if (to.size() == kDctBlock) return Inverse(kept, to.size(), to.data());
      std::array<float, kDctBlock> decoded;
      Inverse(kept, to.size(), decoded.data());
      std::copy_n(decoded.begin(), to.size(), to.begin());
    });
  }

  absl::Status DecodeAccumulate(absl::Span<const uint8_t> packed, float weight,
                                absl::Span<float> acc) const override {
    return ForBlocks(packed, acc, [this, weight](const Kept& kept, absl::Span<float> to) {
      std::array<float, kDctBlock> decoded;
      Inverse(kept, to.size(), decoded.data());
      kernels_.fp32.accumulate(reinterpret_cast<const uint8_t*>(decoded.data()), to.size(), weight, to.data());
    });
  }

  double ErrorBound(float max_abs) const override {
    // The transform keeps lengths: 8 max_abs at most for a chunk, of which the k largest coefficients
    // have k / 64 of the square or more. Theirs are off by half a scale, 8 max_abs / 127 at most.
    const double k = spec().k;
    const double lost = 8.0 * std::sqrt(1.0 - k / kDctSize) + std::sqrt(k) * 4.0 / 127.0;
    return double{max_abs} * lost * (1.0 + 0x1p-10) + 0x1p-120;
  }

 private:
  static uint64_t NumChunks(uint64_t values) { return (values + kDctSize - 1) / kDctSize; }
  uint64_t NumKept(uint64_t values) const { return NumChunks(values) * spec().k; }
  uint64_t BlockBytes(uint64_t values) const {
    return kScaleBytes + NumKept(values) + BytesOfBits(NumKept(values) * kDctIndexBits);
  }

  void DoEncode(absl::Span<const float> in, absl::Span<uint8_t> out, const Rounding&) const override {
    Kept kept;
    uint8_t* to = out.data();
    for (size_t begin = 0; begin < in.size(); begin += block()) {
      const absl::Span<const float> values = in.subspan(begin, block());
      const size_t count = NumKept(values.size());
      Transform(values, &kept);
      const float most = std::bit_cast<float>(kernels_.max_magnitude(kept.values.data(), count));
      const float scale = ScaleFor(most, Int8Code::kLevels, kDctMaxScale);
      std::memcpy(to, &scale, kScaleBytes);
      kernels_.int8.encode(kept.values.data(), count, InverseOf(scale), to + kScaleBytes);
      BitWriter indices(to + kScaleBytes + count);
      for (size_t i = 0; i < count; ++i) indices.Put(kept.indices[i], kDctIndexBits);
      indices.Finish();
      to += BlockBytes(values.size());
    }
  }

  // The coefficients of a block that are kept.
  void Transform(absl::Span<const float> values, Kept* kept) const {
    std::array<float, kDctBlock> padded;
    const float* from = values.data();
    if (values.size() % kDctSize != 0) {
      std::fill(std::copy(values.begin(), values.end(), padded.begin()), padded.end(), 0.0f);
      from = padded.data();
    }
    kernels_.largest_of_dct(from, NumChunks(values.size()), spec().k, kept->values.data(), kept->indices.data());
  }

  // To `values`, rounded up to whole chunks.
  void Inverse(const Kept& kept, size_t values, float* out) const {
    kernels_.inverse_dct(kept.values.data(), kept.indices.data(), NumChunks(values), spec().k, out);
  }

  // Calls use(kept, values) for each block.
  template <typename Use>
  absl::Status ForBlocks(absl::Span<const uint8_t> packed, absl::Span<float> values, Use use) const {
    GDF_RETURN_IF_ERROR(CheckPackedSize(*this, packed.size(), values.size()));
    Kept kept;
    const uint8_t* from = packed.data();
    for (size_t begin = 0; begin < values.size(); begin += block()) {
      const absl::Span<float> block_values = values.subspan(begin, block());
      if (!Read(from, NumKept(block_values.size()), &kept)) {
        return BadPacked(*this, absl::StrCat("the block at value ", begin,
                                             " has a scale, codes or indices that nothing is encoded to"));
      }
      use(kept, block_values);
      from += BlockBytes(block_values.size());
    }
    return absl::OkStatus();
  }

  // False unless the scale and codes are an encoder's, indices ascend in each chunk and the rest is 0.
  bool Read(const uint8_t* from, size_t count, Kept* kept) const {
    float scale;
    std::memcpy(&scale, from, kScaleBytes);
    if (!IsScale(scale, kDctMaxScale)) return false;
    if (!kernels_.int8.decode(from + kScaleBytes, count, scale, kept->values.data())) return false;
    const size_t bits = count * kDctIndexBits;
    const uint8_t* packed_indices = from + kScaleBytes + count;
    bool good = bits % 8 == 0 || packed_indices[bits / 8] >> bits % 8 == 0;
    BitReader indices(packed_indices, BytesOfBits(bits));
    for (size_t begin = 0; begin < count; begin += spec().k) {
      uint32_t next = 0;  // the least index that may follow
      for (size_t i = begin; i < begin + spec().k; ++i) {
        const uint32_t index = indices.Get(kDctIndexBits);
        good &= index >= next;
        next = index + 1;
        kept->indices[i] = static_cast<uint8_t>(index);
      }
    }
    return good;
  }

  const Kernels& kernels_;
};

}  // namespace

std::unique_ptr<Codec> MakeDctCodec(const CodecSpec& spec, const Kernels& kernels) {
  return std::make_unique<DctCodec>(spec, kernels);
}

}  // namespace gdf::compress
