// Codec dct: a thread block to a block of 64 chunks of 64 values. Encoding, a warp to the coefficients of one parity of a
// quarter of the chunks, a lane to a coefficient; sums go in the order that the format says.
#ifndef GDF_CUDA_DCT_H_
#define GDF_CUDA_DCT_H_

#include "core/compress/dct.h"
#include "cuda/blocks.h"
#include "cuda/select.h"

namespace gdf::cuda {

constexpr uint32_t kDctValues = compress::kDctSize, kDctPairs = compress::kDctHalf;
constexpr uint32_t kDctChunks = compress::kDctBlock / kDctValues;  // of a block
constexpr uint32_t kMaxDctKept = compress::kMaxDctKept;
constexpr uint32_t kDctIndexBits = compress::kDctIndexBits;

struct DctItems : BlockItems {
  static constexpr uint32_t kThreads = kBlockThreads;
  uint32_t k;
  const compress::DctTables* tables;

  constexpr uint32_t team_size() const { return kThreads; }
  GDF_DEVICE uint32_t ChunksOf(uint32_t count) const { return (count + kDctValues - 1) / kDctValues; }
};

struct EncodeDct : DctItems {
  static constexpr uint32_t kPitch = kDctChunks + kRow;
  static constexpr uint32_t kEach = kDctChunks * kDctValues / kBlockThreads;  // coefficients a thread
  struct Shared {
    union {
      float folded[2][kDctPairs][kPitch];           // sums and differences of values i and 63 - i of each chunk
      float coefficients[kDctChunks][kDctValues];
    };
    float kept[kMaxDctKept];
    uint8_t indices[kMaxDctKept];
  };
  struct Sums {
    float v[kEach];
  };
  const float* values;
  uint8_t* packed;
  Refused refused;

  template <typename Team>
  GDF_DEVICE void operator()(Team& team, Shared& shared, uint64_t item) const {
    const uint64_t begin = item * block;
    const uint32_t count = CountOf(item), chunks = ChunksOf(count), kept = chunks * k;
    const int32_t largest = team.Max([&](uint32_t thread) { return Fold(values + begin, count, thread, shared); });
    if (largest >= compress::kInfinityBits) {
      team.Each([&](uint32_t thread) {
        if (thread == 0) refused.Note(begin);
      });
      return;
    }
    Transform(team, shared);
    team.Warps([&](auto& warp, uint32_t number, uint32_t warps) {
      for (uint32_t chunk = number; chunk < chunks; chunk += warps) Keep(warp, shared, chunk);
    });
    const int32_t most = team.Max([&](uint32_t thread) {
      int32_t of_thread = 0;
      for (uint32_t i = thread; i < kept; i += team.size()) {
        const int32_t bits = compress::MagnitudeBits(shared.kept[i]);
        of_thread = bits > of_thread ? bits : of_thread;
      }
      return of_thread;
    });
    const float scale = compress::ScaleFor(std::bit_cast<float>(most), compress::Int8Code::kLevels, compress::kDctMaxScale);
    uint8_t* out = packed + item * packed_block;
    const auto bytes = static_cast<uint32_t>(kScaleBytes + kept + compress::BytesOfBits(kept * kDctIndexBits));
    team.Each([&](uint32_t thread) {
      for (uint32_t byte = thread; byte < bytes; byte += team.size()) out[byte] = ByteAt(shared, scale, kept, byte);
    });
  }

  // Sums and differences, limited, of this thread's rows; what LargestOf says of them.
  GDF_DEVICE static int32_t Fold(const float* in, uint32_t count, uint32_t thread, Shared& shared) {
    constexpr uint32_t kRows = kDctPairs / kRow;
    int32_t most = 0;
    for (uint32_t task = thread; task < kDctChunks * kRows; task += kBlockThreads) {
      const uint32_t chunk = task / kRows, first = task % kRows * kRow;
      const uint32_t front = chunk * kDctValues + first, back = chunk * kDctValues + kDctValues - kRow - first;
      const Row a = LoadRow(in + front, LeftOf(count, front, kRow));
      const Row b = LoadRow(in + back, LeftOf(count, back, kRow));
      const int32_t of_a = LargestOf(a), of_b = LargestOf(b);
      most = of_a > most ? of_a : most;
      most = of_b > most ? of_b : most;
      for (uint32_t j = 0; j < kRow; ++j) {
        const float x = Limited(a.v[j]), y = Limited(b.v[kRow - 1 - j]);
        shared.folded[0][first + j][chunk] = x + y;
        shared.folded[1][first + j][chunk] = x - y;
      }
    }
    return most;
  }
  GDF_DEVICE static float Limited(float value) {
    return value < -compress::kDctLimit ? -compress::kDctLimit : value > compress::kDctLimit ? compress::kDctLimit : value;
  }

  template <typename Team>
  GDF_DEVICE void Transform(Team& team, Shared& shared) const {
    typename Team::template Local<Sums> sums;
    team.Each([&](uint32_t thread) {
      const uint32_t lane = thread % kWarpThreads, parity = ParityOf(thread), first = FirstChunkOf(thread);
      Sums of_thread = {};
      for (uint32_t i = 0; i < kDctPairs; ++i) {
        const float factor = tables->forward[i][parity * kDctPairs + lane];
        const float* from = &shared.folded[parity][i][first];
        for (uint32_t c = 0; c < kEach; c += kRow) {
          const Row row = LoadRow(from + c, kRow);
          for (uint32_t j = 0; j < kRow; ++j) of_thread.v[c + j] = compress::Accumulate(of_thread.v[c + j], row.v[j], factor);
        }
      }
      sums[thread] = of_thread;
    });
    team.Each([&](uint32_t thread) {  // which overwrites what all have read
      const uint32_t coefficient = thread % kWarpThreads * 2 + ParityOf(thread);
      for (uint32_t c = 0; c < kEach; ++c) shared.coefficients[FirstChunkOf(thread) + c][coefficient] = sums[thread].v[c];
    });
  }
  GDF_DEVICE static uint32_t ParityOf(uint32_t thread) { return thread / kWarpThreads % 2; }
  GDF_DEVICE static uint32_t FirstChunkOf(uint32_t thread) { return thread / (2 * kWarpThreads) * kEach; }

  template <typename Warp>
  GDF_DEVICE void Keep(Warp& warp, Shared& shared, uint32_t chunk) const {
    constexpr uint32_t kPerLane = kDctValues / kWarpThreads;
    typename Warp::template Local<Magnitudes<kPerLane>> magnitudes;
    const float* coefficients = shared.coefficients[chunk];
    const int32_t largest = warp.Max([&](uint32_t lane) {
      int32_t most = 0;
      for (uint32_t i = 0; i < kPerLane; ++i) {
        const int32_t bits = compress::MagnitudeBits(coefficients[lane * kPerLane + i]);
        magnitudes[lane].v[i] = bits;
        most = bits > most ? bits : most;
      }
      return most;
    });
    Select<kPerLane>(warp, magnitudes, k, largest, [&](uint32_t lane, uint32_t i, uint32_t place) {
      const uint32_t index = lane * kPerLane + i;
      shared.kept[chunk * k + place] = coefficients[index];
      shared.indices[chunk * k + place] = static_cast<uint8_t>(index);
    });
  }

  GDF_DEVICE static uint8_t ByteAt(const Shared& shared, float scale, uint32_t kept, uint32_t byte) {
    if (byte < kScaleBytes) return static_cast<uint8_t>(std::bit_cast<uint32_t>(scale) >> byte * 8);
    const uint32_t code = byte - kScaleBytes;
    if (code < kept) return static_cast<uint8_t>(compress::Int8Code::FromFloat(shared.kept[code], compress::InverseOf(scale)));
    return ByteOfFields(code - kept, kDctIndexBits, kept, [&](uint32_t i) { return shared.indices[i]; });
  }
};

template <typename Use>
struct DecodeDct : DctItems {
  struct Shared {
    float kept[kMaxDctKept];
    uint8_t indices[kMaxDctKept];
  };
  const uint8_t* packed;
  Use use;
  Refused refused;

  template <typename Team>
  GDF_DEVICE void operator()(Team& team, Shared& shared, uint64_t item) const {
    const uint64_t begin = item * block;
    const uint32_t count = CountOf(item), chunks = ChunksOf(count), kept = chunks * k;
    if (!Read(team, shared, packed + item * packed_block, kept)) {
      team.Each([&](uint32_t thread) {
        if (thread == 0) refused.Note(begin);
      });
      return;
    }
    team.Each([&](uint32_t thread) {
      for (uint32_t at = thread * kRow; at < count; at += team.size() * kRow) {
        const uint32_t first = at / kDctValues * k;
        Row row = {};
        for (uint32_t i = first; i < first + k; ++i) {
          const Row basis = LoadRow(&tables->basis[shared.indices[i]][at % kDctValues], kRow);
          for (uint32_t j = 0; j < kRow; ++j) row.v[j] = compress::Accumulate(row.v[j], shared.kept[i], basis.v[j]);
        }
        use.Values(begin + at, LeftOf(count, at, kRow), row);
      }
    });
  }

  // False unless the scale and codes are an encoder's, indices ascend in each chunk and the rest is 0.
  template <typename Team>
  GDF_DEVICE bool Read(Team& team, Shared& shared, const uint8_t* in, uint32_t kept) const {
    uint32_t scale_bits = 0;
    for (uint32_t byte = 0; byte < kScaleBytes; ++byte) scale_bits |= uint32_t{in[byte]} << byte * 8;
    const auto scale = std::bit_cast<float>(scale_bits);
    const uint8_t* indices = in + kScaleBytes + kept;
    const uint32_t bits = kept * kDctIndexBits;
    const int32_t is_bad = team.Max([&](uint32_t thread) {
      bool bad = !compress::IsScale(scale, compress::kDctMaxScale) || (bits % 8 != 0 && indices[bits / 8] >> bits % 8 != 0);
      for (uint32_t i = thread; i < kept; i += team.size()) {
        const uint32_t code = in[kScaleBytes + i];
        bad |= code == compress::Int8Code::kUnused;
        shared.kept[i] = scale * compress::Int8Code::ToFloat(code);
        shared.indices[i] = static_cast<uint8_t>(compress::GetBits(indices, compress::BytesOfBits(bits), i * kDctIndexBits, kDctIndexBits));
      }
      return bad ? 1 : 0;
    });
    const int32_t is_unordered = team.Max([&](uint32_t thread) {
      bool bad = false;
      for (uint32_t i = thread; i < kept; i += team.size()) bad |= i % k != 0 && shared.indices[i] <= shared.indices[i - 1];
      return bad ? 1 : 0;
    });
    return is_bad == 0 && is_unordered == 0;
  }
};

}  // namespace gdf::cuda

#endif  // GDF_CUDA_DCT_H_
