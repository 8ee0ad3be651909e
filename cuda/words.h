// Codecs fp32, bf16 and fp16: a warp to 512 values, four rows a thread.
#ifndef GDF_CUDA_WORDS_H_
#define GDF_CUDA_WORDS_H_

#include <bit>

#include "cuda/rows.h"

namespace gdf::cuda {

template <typename W>
struct alignas(kRow * sizeof(typename W::Word)) WordRow {
  typename W::Word v[kRow];
};

struct WordItems {
  using Shared = NothingShared;
  static constexpr uint32_t kThreads = kWarpThreads;
  static constexpr uint64_t kRows = 4;
  static constexpr uint64_t kValues = kRows * kWarpThreads * kRow;
  uint64_t num_values;

  constexpr uint64_t num_items() const { return (num_values + kValues - 1) / kValues; }
  constexpr uint32_t team_size() const { return kWarpThreads; }

  // Calls use(at, n) for the rows of a thread.
  template <typename Use>
  GDF_DEVICE void ForRows(uint64_t item, uint32_t thread, Use use) const {
    for (uint64_t row = 0; row < kRows; ++row) {
      const uint64_t at = item * kValues + (row * kWarpThreads + thread) * kRow;
      const uint32_t n = LeftOf(num_values, at, kRow);
      if (n > 0) use(at, n);
    }
  }
};

template <typename W>
struct EncodeWords : WordItems {
  const float* values;
  typename W::Word* packed;
  Refused refused;

  template <typename Team>
  GDF_DEVICE void operator()(Team& team, Shared&, uint64_t item) const {
    team.Each([&](uint32_t thread) {
      ForRows(item, thread, [&](uint64_t at, uint32_t n) {
        const Row row = LoadRow(values + at, n);
        WordRow<W> words;
        for (uint32_t k = 0; k < kRow; ++k) words.v[k] = W::FromFloat(row.v[k]);
        for (uint32_t k = 0; k < kRow; ++k) {
          if (compress::MagnitudeBits(row.v[k]) >= compress::kInfinityBits) refused.Note(at + k);
        }
        if (n == kRow) {
          *reinterpret_cast<WordRow<W>*>(packed + at) = words;
        } else {
          for (uint32_t k = 0; k < n; ++k) packed[at + k] = words.v[k];
        }
      });
    });
  }
};

template <typename W, typename Use>
struct DecodeWords : WordItems {
  const typename W::Word* packed;
  Use use;
  Refused refused;

  template <typename Team>
  GDF_DEVICE void operator()(Team& team, Shared&, uint64_t item) const {
    team.Each([&](uint32_t thread) {
      ForRows(item, thread, [&](uint64_t at, uint32_t n) {
        WordRow<W> words = {};
        if (n == kRow) {
          words = *reinterpret_cast<const WordRow<W>*>(packed + at);
        } else {
          for (uint32_t k = 0; k < n; ++k) words.v[k] = packed[at + k];
        }
        Row row;
        for (uint32_t k = 0; k < kRow; ++k) {
          const uint32_t bits = W::ToBits(words.v[k]);
          if (compress::NotFinite(bits) != 0) refused.Note(at + k);
          row.v[k] = std::bit_cast<float>(bits);
        }
        use.Values(at, n, row);
      });
    });
  }
};

}  // namespace gdf::cuda

#endif  // GDF_CUDA_WORDS_H_
