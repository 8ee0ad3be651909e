// Of each chunk of 4096 values the k largest, by index (Elias-Fano) and a code. See
// docs/formats/codecs.md.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/compress/bits.h"
#include "core/compress/codecs.h"
#include "core/compress/topk.h"
#include "core/compress/values.h"

namespace gdf::compress {
namespace {

static_assert(CodecSpec::kChunk == kTopKChunk && CodecSpec::kMaxK == kMaxTopK && kTopKChunk <= kMaxSelect);
using Indices = std::array<uint16_t, CodecSpec::kMaxK>;

template <typename Levels>
class TopKCodec final : public Codec {
 public:
  TopKCodec(const CodecSpec& spec, const Kernels& kernels)
      : Codec(spec), select_(kernels.select), whole_(CodecSpec::kChunk, spec.k, Levels::kBits) {}

  bool is_dense() const override { return false; }
  uint64_t block() const override { return CodecSpec::kChunk; }

  uint64_t PackedSize(uint64_t num_values) const override {
    const uint64_t rest = num_values % CodecSpec::kChunk;
    return num_values / CodecSpec::kChunk * whole_.bytes + (rest > 0 ? LayoutOf(rest).bytes : 0);
  }

  void DoEncode(absl::Span<const float> in, absl::Span<uint8_t> out, const Rounding&) const override {
    Indices indices;
    std::array<float, CodecSpec::kMaxK> kept;
    uint8_t* to = out.data();
    for (size_t begin = 0; begin < in.size(); begin += CodecSpec::kChunk) {
      const Layout layout = LayoutOf(in.size() - begin);
      const float* chunk = in.data() + begin;
      select_(chunk, layout.values, layout.kept, indices.data());
      for (size_t i = 0; i < layout.kept; ++i) kept[i] = chunk[indices[i]];
      const Levels levels = Levels::Of(kept.data(), layout.kept);
      const uint32_t level_bits = levels.Bits();
      std::memcpy(to, &level_bits, kLevelBytes);
      BitWriter codes(to + kLevelBytes), lows(to + layout.lows);
      uint8_t* highs = to + layout.highs;
      std::memset(highs, 0, layout.bytes - layout.highs);
      for (size_t i = 0; i < layout.kept; ++i) {
        codes.Put(levels.Code(kept[i]), Levels::kBits);
        lows.Put(indices[i] & ((1u << layout.low_bits) - 1u), layout.low_bits);
        const size_t high = (indices[i] >> layout.low_bits) + i;
        highs[high / 8] |= static_cast<uint8_t>(1u << high % 8);
      }
      codes.Finish();
      lows.Finish();
      to += layout.bytes;
    }
  }

  absl::Status Decode(absl::Span<const uint8_t> packed, absl::Span<float> out) const override {
    // Chunk by chunk, as the few values that follow then find it in the cache.
    return ForKept(packed, out, [](float* chunk, size_t values) { std::fill_n(chunk, values, 0.0f); },
                   [](float value, float* to) { *to = value; });
  }

  absl::Status DecodeAccumulate(absl::Span<const uint8_t> packed, float weight,
                                absl::Span<float> acc) const override {
    return ForKept(packed, acc, [](float*, size_t) {},
                   [weight](float value, float* to) { *to = Accumulate(*to, weight, value); });
  }

  double ErrorBound(float max_abs) const override {
    // What is left out is at most that; a level is a mean of magnitudes, rounded.
    return double{max_abs} * (1.0 + 0x1p-8) + 0x1p-126;
  }

 private:
  // Of the chunk at which `values` values begin.
  Layout LayoutOf(size_t values) const {
    if (values >= CodecSpec::kChunk) return whole_;
    return Layout(values, spec().k, Levels::kBits);
  }

  // Calls begin(chunk, number of values) for each chunk and then use(value, place) for each value that is kept.
  template <typename Begin, typename Use>
  absl::Status ForKept(absl::Span<const uint8_t> packed, absl::Span<float> values, Begin begin_chunk, Use use) const {
    GDF_RETURN_IF_ERROR(CheckPackedSize(*this, packed.size(), values.size()));
    Indices indices;
    const uint8_t* from = packed.data();
    for (size_t begin = 0; begin < values.size(); begin += CodecSpec::kChunk) {
      const Layout layout = LayoutOf(values.size() - begin);
      uint32_t level_bits;
      std::memcpy(&level_bits, from, kLevelBytes);
      const Levels levels = Levels::FromBits(level_bits);
      if (!levels.IsGood() || !ReadIndices(from, layout, &indices)) {
        return BadPacked(*this, absl::StrCat("the chunk at value ", begin,
                                             " has levels or indices that nothing is encoded to"));
      }
      float* chunk = values.data() + begin;
      begin_chunk(chunk, layout.values);
      BitReader codes(from + kLevelBytes, layout.lows - kLevelBytes);
      bool known = true;
      for (size_t i = 0; i < layout.kept; ++i) {
        const uint32_t code = codes.Get(Levels::kBits);
        known = known && levels.Known(code);
        use(levels.Value(code), chunk + indices[i]);
      }
      if (!known) {
        return BadPacked(*this, absl::StrCat("the chunk at value ", begin,
                                             " holds -128, which nothing is encoded to"));
      }
      from += layout.bytes;
    }
    return absl::OkStatus();
  }

  // False unless there are `kept` of them, ascending and within the chunk.
  static bool ReadIndices(const uint8_t* from, const Layout& layout, Indices* indices) {
    BitReader lows(from + layout.lows, layout.highs - layout.lows);
    const uint8_t* highs = from + layout.highs;
    const size_t size = layout.bytes - layout.highs;
    size_t found = 0;
    size_t next = 0;  // the least index that may follow
    for (size_t byte = 0; byte < size; byte += sizeof(uint64_t)) {
      uint64_t bits = 0;
      std::memcpy(&bits, highs + byte, std::min(sizeof(bits), size - byte));
      for (; bits != 0; bits &= bits - 1) {
        if (found == layout.kept) return false;
        const size_t high = byte * 8 + static_cast<size_t>(std::countr_zero(bits)) - found;
        const size_t index = high << layout.low_bits | lows.Get(layout.low_bits);
        if (index >= layout.values || index < next) return false;
        next = index + 1;
        (*indices)[found++] = static_cast<uint16_t>(index);
      }
    }
    return found == layout.kept;
  }

  void (*const select_)(const float* in, size_t count, size_t k, uint16_t* indices);
  const Layout whole_;
};

}  // namespace

std::unique_ptr<Codec> MakeTopKCodec(const CodecSpec& spec, const Kernels& kernels) {
  if (spec.kind == CodecKind::kTopK2) return std::make_unique<TopKCodec<TwoLevels>>(spec, kernels);
  return std::make_unique<TopKCodec<Int8Levels>>(spec, kernels);
}

}  // namespace gdf::compress
