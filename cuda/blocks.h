// Codecs int8, int4 and fp4: up to a warp to a block of values, 16 values a thread, so that the largest magnitude is
// one reduction and blocks of up to 512 values are read once.
#ifndef GDF_CUDA_BLOCKS_H_
#define GDF_CUDA_BLOCKS_H_

#include <bit>
#include <type_traits>

#include "core/compress/bits.h"
#include "core/compress/philox.h"
#include "cuda/rows.h"

namespace gdf::cuda {

constexpr uint32_t kScaleBytes = sizeof(float);

// The blocks of an array and of its packed form.
struct BlockItems {
  uint64_t num_values;
  uint32_t block;        // values
  uint32_t packed_block;  // bytes

  constexpr uint64_t num_items() const { return (num_values + block - 1) / block; }
  GDF_DEVICE uint32_t CountOf(uint64_t item) const { return LeftOf(num_values, item * block, block); }
};

// Four rows, 16 values apart, of a group of 64: those for which the counters 4 u to 4 u + 3 of Philox draw a word of
// each value, u being the unit's number within the group.
constexpr uint32_t kRowsOfUnit = 4;
struct Unit {
  Row rows[kRowsOfUnit];
};
constexpr uint32_t kUnitsOfGroup = compress::kRandomLanes / kRow;
static_assert(compress::kRandomGroup == kUnitsOfGroup * kRowsOfUnit * kRow);

GDF_DEVICE inline uint32_t RowBegin(uint32_t unit, uint32_t row) {
  return unit / kUnitsOfGroup * static_cast<uint32_t>(compress::kRandomGroup) +
         row * static_cast<uint32_t>(compress::kRandomLanes) + unit % kUnitsOfGroup * kRow;
}

GDF_DEVICE inline Unit LoadUnit(const float* in, uint32_t unit, uint32_t count) {
  Unit loaded;
  for (uint32_t row = 0; row < kRowsOfUnit; ++row) {
    const uint32_t begin = RowBegin(unit, row);
    loaded.rows[row] = LoadRow(in + begin, LeftOf(count, begin, kRow));
  }
  return loaded;
}

GDF_DEVICE inline int32_t LargestOf(const Unit& unit) {
  int32_t largest = 0;
  for (const Row& row : unit.rows) {
    const int32_t of_row = LargestOf(row);
    largest = of_row > largest ? of_row : largest;
  }
  return largest;
}

// The codes of a row, the first in the lowest bits, as they lie in memory.
template <typename Code>
struct CodeRow {
  static constexpr uint32_t kBytes = kRow * Code::kBits / 8;
  using Whole = std::conditional_t<kBytes == 4, uint32_t, uint16_t>;
  static_assert(sizeof(Whole) == kBytes);

  GDF_DEVICE static uint32_t Load(const uint8_t* from, uint32_t n) {
    if (n == kRow) return *reinterpret_cast<const Whole*>(from);
    uint32_t codes = 0;
    for (uint32_t byte = 0; byte < compress::BytesOfBits(n * Code::kBits); ++byte) codes |= uint32_t{from[byte]} << 8 * byte;
    return codes;
  }
  GDF_DEVICE static void Store(uint32_t codes, uint32_t n, uint8_t* to) {
    if (n == kRow) {
      *reinterpret_cast<Whole*>(to) = static_cast<Whole>(codes);
      return;
    }
    for (uint32_t byte = 0; byte < compress::BytesOfBits(n * Code::kBits); ++byte) to[byte] = static_cast<uint8_t>(codes >> 8 * byte);
  }
};

struct UnitItems : BlockItems {
  using Shared = NothingShared;
  static constexpr uint32_t kThreads = 4;  // at least
  constexpr uint32_t team_size() const {
    const uint32_t units = block / (kRowsOfUnit * kRow);
    return units < kWarpThreads ? units : kWarpThreads;
  }
};

// To the nearest code.
struct ToNearest {
  template <typename Code>
  struct Of {
    GDF_DEVICE uint32_t operator()(const Row& row, uint32_t, uint32_t k, float inverse) const {
      return Code::FromFloat(row.v[k], inverse);
    }
  };
  template <typename Code>
  GDF_DEVICE Of<Code> At(uint64_t, uint32_t) const {
    return {};
  }
};

// By chance to either neighbour, by the place of a value among those of the seed.
struct ByChance {
  uint64_t seed;
  uint64_t first;  // place of the first value

  template <typename Code>
  struct Of {
    uint32_t words[kRow][kRowsOfUnit];
    GDF_DEVICE uint32_t operator()(const Row& row, uint32_t number, uint32_t k, float inverse) const {
      return Code::FromFloat(row.v[k], inverse, words[k][number]);
    }
  };
  // Of a unit of the block that begins at value `begin`.
  template <typename Code>
  GDF_DEVICE Of<Code> At(uint64_t begin, uint32_t unit) const {
    const uint64_t group = (first + begin) / compress::kRandomGroup + unit / kUnitsOfGroup;
    Of<Code> of;
    for (uint32_t k = 0; k < kRow; ++k) {
      const uint64_t counter = group * compress::kRandomLanes + unit % kUnitsOfGroup * kRow + k;
      const auto random = compress::Philox({static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0}, seed);
      for (uint32_t row = 0; row < kRowsOfUnit; ++row) of.words[k][row] = random[row];
    }
    return of;
  }
};

template <typename Code, typename Rounding>
struct EncodeCodes : UnitItems {
  const float* values;
  uint8_t* packed;
  Rounding rounding;
  Refused refused;

  template <typename Team>
  GDF_DEVICE void operator()(Team& team, Shared&, uint64_t item) const {
    const uint64_t begin = item * block;
    const uint32_t count = CountOf(item);
    const float* in = values + begin;
    typename Team::template Local<Unit> held;  // a thread's first unit
    const int32_t largest = team.Max([&](uint32_t thread) {
      held[thread] = LoadUnit(in, thread, count);
      int32_t most = LargestOf(held[thread]);
      for (uint32_t unit = thread + team.size(); RowBegin(unit, 0) < count; unit += team.size()) {
        const int32_t of_unit = LargestOf(LoadUnit(in, unit, count));
        most = of_unit > most ? of_unit : most;
      }
      return most;
    });
    const float scale = compress::ScaleFor(std::bit_cast<float>(largest), Code::kLevels, Code::kMaxScale);
    uint8_t* out = packed + item * packed_block;
    team.Each([&](uint32_t thread) {
      if (thread == 0 && count > 0) {
        *reinterpret_cast<float*>(out) = scale;
        if (largest >= compress::kInfinityBits) refused.Note(begin);
      }
      Pack(held[thread], begin, count, thread, scale, out + kScaleBytes);
      for (uint32_t unit = thread + team.size(); RowBegin(unit, 0) < count; unit += team.size()) {
        Pack(LoadUnit(in, unit, count), begin, count, unit, scale, out + kScaleBytes);
      }
    });
  }

  GDF_DEVICE void Pack(const Unit& from, uint64_t begin, uint32_t count, uint32_t unit, float scale, uint8_t* codes_out) const {
    const float inverse = compress::InverseOf(scale);
    const auto code_of = rounding.template At<Code>(begin, unit);
    for (uint32_t row = 0; row < kRowsOfUnit; ++row) {
      const uint32_t at = RowBegin(unit, row);
      const uint32_t n = LeftOf(count, at, kRow);
      if (n == 0) continue;
      uint32_t codes = 0;
      for (uint32_t k = 0; k < kRow; ++k) {
        const uint32_t code = code_of(from.rows[row], row, k, inverse);
        codes |= k < n ? code << k * Code::kBits : 0u;
      }
      CodeRow<Code>::Store(codes, n, codes_out + at * Code::kBits / 8);
    }
  }
};

template <typename Code, typename Use>
struct DecodeCodes : UnitItems {
  const uint8_t* packed;
  Use use;
  Refused refused;

  template <typename Team>
  GDF_DEVICE void operator()(Team& team, Shared&, uint64_t item) const {
    const uint64_t begin = item * block;
    const uint32_t count = CountOf(item);  // 0 beyond the end, where other teams of the warp still have work
    const uint8_t* in = packed + item * packed_block;
    const float scale = count > 0 ? *reinterpret_cast<const float*>(in) : 0.0f;
    team.Each([&](uint32_t thread) {
      bool bad = thread == 0 && !compress::IsScale(scale, Code::kMaxScale);
      for (uint32_t unit = thread; RowBegin(unit, 0) < count; unit += team.size()) {
        for (uint32_t row = 0; row < kRowsOfUnit; ++row) {
          const uint32_t at = RowBegin(unit, row);
          const uint32_t n = LeftOf(count, at, kRow);
          if (n == 0) continue;
          const uint32_t codes = CodeRow<Code>::Load(in + kScaleBytes + at * Code::kBits / 8, n);
          if (n < kRow) bad |= codes >> n * Code::kBits != 0;
          Row decoded;
          for (uint32_t k = 0; k < kRow; ++k) {
            const uint32_t code = codes >> k * Code::kBits & ((1u << Code::kBits) - 1u);
            bad |= code == Code::kUnused;
            decoded.v[k] = scale * Code::ToFloat(code);
          }
          use.Values(begin + at, n, decoded);
        }
      }
      if (bad) refused.Note(begin);
    });
  }
};

}  // namespace gdf::cuda

#endif  // GDF_CUDA_BLOCKS_H_
