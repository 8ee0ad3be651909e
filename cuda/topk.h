// Codecs topk2 and topk8: a thread block to a chunk of 4096 values, 16 neighbouring ones a thread.
#ifndef GDF_CUDA_TOPK_H_
#define GDF_CUDA_TOPK_H_

#include "core/compress/topk.h"
#include "cuda/blocks.h"
#include "cuda/select.h"

namespace gdf::cuda {

constexpr uint32_t kTopKEach = compress::kTopKChunk / kBlockThreads;

template <typename Levels>
struct TopKItems : BlockItems {
  static constexpr uint32_t kThreads = kBlockThreads;
  uint32_t k;

  constexpr uint32_t team_size() const { return kThreads; }
  GDF_DEVICE compress::Layout LayoutOf(uint64_t item) const { return {CountOf(item), k, Levels::kBits}; }
};

template <typename Levels>
struct EncodeTopK : TopKItems<Levels> {
  static constexpr uint32_t kBitmapWords = (2 * compress::kMaxTopK + 31) / 32 + 1;
  struct Shared {
    uint16_t indices[compress::kMaxTopK];
    float kept[compress::kMaxTopK];
    uint32_t bitmap[kBitmapWords];
    Levels levels;
  };
  const float* values;
  uint8_t* packed;
  Refused refused;

  template <typename Team>
  GDF_DEVICE void operator()(Team& team, Shared& shared, uint64_t item) const {
    const uint64_t begin = item * this->block;
    const compress::Layout layout = this->LayoutOf(item);
    const float* in = values + begin;
    typename Team::template Local<Magnitudes<kTopKEach>> magnitudes;
    const int32_t largest = team.Max([&](uint32_t thread) {
      int32_t most = 0;
      for (uint32_t i = 0; i < kTopKEach; i += kRow) {
        const uint32_t at = thread * kTopKEach + i;
        const uint32_t n = LeftOf(layout.values, at, kRow);
        const Row row = LoadRow(in + at, n);
        for (uint32_t j = 0; j < kRow; ++j) magnitudes[thread].v[i + j] = j < n ? compress::MagnitudeBits(row.v[j]) : -1;
        const int32_t of_row = LargestOf(row);
        most = of_row > most ? of_row : most;
      }
      for (uint32_t word = thread; word < kBitmapWords; word += team.size()) shared.bitmap[word] = 0;
      return most;
    });
    if (largest >= compress::kInfinityBits) {
      team.Each([&](uint32_t thread) {
        if (thread == 0) refused.Note(begin);
      });
      return;
    }
    Select<kTopKEach>(team, magnitudes, static_cast<uint32_t>(layout.kept), largest, [&](uint32_t thread, uint32_t i, uint32_t place) {
      const uint32_t index = thread * kTopKEach + i;
      const auto high = static_cast<uint32_t>(index >> layout.low_bits) + place;
      shared.indices[place] = static_cast<uint16_t>(index);
      shared.kept[place] = in[index];
      team.Or(&shared.bitmap[high / 32], 1u << high % 32);
    });
    team.Each([&](uint32_t thread) {
      if (thread == 0) shared.levels = Levels::Of(shared.kept, layout.kept);
    });
    uint8_t* out = packed + item * this->packed_block;
    team.Each([&](uint32_t thread) {
      for (uint32_t byte = thread; byte < layout.bytes; byte += team.size()) out[byte] = ByteAt(shared, layout, byte);
    });
  }

  GDF_DEVICE static uint8_t ByteAt(const Shared& shared, const compress::Layout& layout, uint32_t byte) {
    const auto lows = static_cast<uint32_t>(layout.lows), highs = static_cast<uint32_t>(layout.highs);
    const auto kept = static_cast<uint32_t>(layout.kept), low_bits = static_cast<uint32_t>(layout.low_bits);
    if (byte < compress::kLevelBytes) return static_cast<uint8_t>(shared.levels.Bits() >> byte * 8);
    if (byte < lows) {
      return ByteOfFields(byte - static_cast<uint32_t>(compress::kLevelBytes), Levels::kBits, kept,
                          [&](uint32_t i) { return shared.levels.Code(shared.kept[i]); });
    }
    if (byte < highs) {
      return ByteOfFields(byte - lows, low_bits, kept,
                          [&](uint32_t i) { return shared.indices[i] & ((1u << low_bits) - 1u); });
    }
    return static_cast<uint8_t>(shared.bitmap[(byte - highs) / 4] >> (byte - highs) % 4 * 8);
  }
};

template <typename Levels, typename Use>
struct DecodeTopK : TopKItems<Levels> {
  struct Shared {
    uint16_t indices[compress::kMaxTopK];
  };
  const uint8_t* packed;
  Use use;
  Refused refused;

  template <typename Team>
  GDF_DEVICE void operator()(Team& team, Shared& shared, uint64_t item) const {
    const uint64_t begin = item * this->block;
    const compress::Layout layout = this->LayoutOf(item);
    const uint8_t* in = packed + item * this->packed_block;
    uint32_t level_bits = 0;
    for (uint32_t byte = 0; byte < compress::kLevelBytes; ++byte) level_bits |= uint32_t{in[byte]} << byte * 8;
    const Levels levels = Levels::FromBits(level_bits);
    if (!ReadIndices(team, shared, layout, in) || !levels.IsGood()) {
      team.Each([&](uint32_t thread) {
        if (thread == 0) refused.Note(begin);
      });
      return;
    }
    if constexpr (Use::kWritesAll) {
      team.Each([&](uint32_t thread) {
        for (uint32_t at = thread * kRow; at < layout.values; at += team.size() * kRow) {
          use.Values(begin + at, LeftOf(layout.values, at, kRow), Row{});
        }
      });
    }
    team.Each([&](uint32_t thread) {
      for (uint32_t i = thread; i < layout.kept; i += team.size()) {
        const uint32_t code = compress::GetBits(in + compress::kLevelBytes, layout.lows - compress::kLevelBytes,
                                                i * Levels::kBits, Levels::kBits);
        if (!levels.Known(code)) refused.Note(begin);
        use.Value(begin + shared.indices[i], levels.Value(code));
      }
    });
  }

  // False unless there are layout.kept of them, ascending and within the chunk. A thread to a byte of the bitmap.
  template <typename Team>
  GDF_DEVICE static bool ReadIndices(Team& team, Shared& shared, const compress::Layout& layout, const uint8_t* in) {
    static_assert(2 * compress::kMaxTopK <= 8 * kBlockThreads);
    const auto bits_of = [&](uint32_t thread) -> uint32_t {
      return thread < layout.bytes - layout.highs ? in[layout.highs + thread] : 0u;
    };
    typename Team::template Local<uint32_t> before;
    const uint32_t found = team.Scan([&](uint32_t thread) { return static_cast<uint32_t>(std::popcount(bits_of(thread))); }, before);
    if (found != layout.kept) return false;
    const int32_t is_outside = team.Max([&](uint32_t thread) {
      bool bad = false;
      uint32_t place = before[thread];
      const uint32_t bits = bits_of(thread);
      for (uint32_t bit = 0; bit < 8; ++bit) {
        if ((bits >> bit & 1u) == 0) continue;
        const uint32_t index = (thread * 8 + bit - place) << layout.low_bits |
                               compress::GetBits(in + layout.lows, layout.highs - layout.lows, place * layout.low_bits, layout.low_bits);
        bad |= index >= layout.values;
        shared.indices[place++] = static_cast<uint16_t>(index);
      }
      return bad ? 1 : 0;
    });
    const int32_t is_unordered = team.Max([&](uint32_t thread) {
      bool bad = false;
      for (uint32_t i = thread + 1; i < layout.kept; i += team.size()) bad |= shared.indices[i] <= shared.indices[i - 1];
      return bad ? 1 : 0;
    });
    return is_outside == 0 && is_unordered == 0;
  }
};

}  // namespace gdf::cuda

#endif  // GDF_CUDA_TOPK_H_
