// Deltas as products of two thin matrices: PowerSGD (Vogels, Karimireddy, Jaggi 2019, arXiv:1905.13727, algorithm 1),
// whose two halves are means over the nodes. Pure arithmetic, bit for bit the same on every machine; docs/formats/low-rank.md.
//
//   GDF_ASSIGN_OR_RETURN(LowRank low_rank, LowRank::Create(layout, 4));
//   low_rank.TimesRight(delta, 1, right, left);  // first pass: left becomes the mean of everybody's
//   low_rank.Orthonormalise(seed, left);
//   low_rank.TimesLeft(delta, 1, left, second);  // second pass: so does second
//   low_rank.Accumulate(left, second, 1, mean);
#ifndef GDF_CORE_COMPRESS_LOW_RANK_H_
#define GDF_CORE_COMPRESS_LOW_RANK_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/config/codec_spec.h"
#include "core/tensor/layout.h"

namespace gdf::compress {

// How the tensors of one model are taken apart. A tensor of two dimensions or more is a matrix M of its first dimension
// times the others, [rows, columns]. It goes as P Qᵀ of the job's rank where that has fewer values; all others go whole.
// Factors lie one after the other in layout order, each column after column: "left" holds every P, [rank, rows], "right"
// every Q, [rank, columns], and "second" is right, then the tensors that go whole.
//
// Immutable; every function is safe from any thread.
class LowRank {
 public:
  static constexpr uint32_t kMaxRank = config::kMaxPowerSgdRank;

  // Whether the factors of a matrix are fewer values than itself.
  static bool TakesApart(uint32_t rank, uint64_t rows, uint64_t columns) { return rows * columns > rank * (rows + columns); }

  // kInvalidArgument unless `rank` is 1 to kMaxRank.
  static absl::StatusOr<LowRank> Create(const tensor::Layout& layout, uint32_t rank);

  uint64_t num_params() const { return num_params_; }
  uint64_t num_left() const { return num_left_; }
  uint64_t num_right() const { return num_right_; }
  uint64_t num_second() const { return num_right_ + num_whole_; }

  // Every Q that a job begins with: independent values in [-1, 1), by `seed`.
  void FirstRight(uint64_t seed, absl::Span<float> right) const;

  // P = scale M Q of every matrix M in `values`, [num_params] float32.
  void TimesRight(absl::Span<const float> values, float scale, absl::Span<const float> right,
                  absl::Span<float> left) const;

  // The columns of each P become orthonormal ones whose first k span what its first k did, for every k. A column that
  // those before it span already, or that is zero, becomes one at random by `seed`: it looks where nothing was found.
  void Orthonormalise(uint64_t seed, absl::Span<float> left) const;

  // Q = scale Mᵀ P of every matrix in `values`, and scale times the tensors that go whole.
  void TimesLeft(absl::Span<const float> values, float scale, absl::Span<const float> left,
                 absl::Span<float> second) const;

  // The Q that the next round begins with: those of `second`, each column times the power of two that makes its largest
  // magnitude 0.5 or more and below 1, since only its direction counts.
  void NextRight(absl::Span<const float> second, absl::Span<float> right) const;

  // acc = acc + weight x of every element x of what the factors stand for: of P Qᵀ, and of the tensors that go whole.
  void Accumulate(absl::Span<const float> left, absl::Span<const float> second, float weight,
                  absl::Span<float> acc) const;

 private:
  struct Matrix {
    uint64_t offset;  // of its first element in the parameters, of its factors in left and right
    uint64_t rows, columns;
    uint64_t left, right;
  };
  struct Whole {
    uint64_t offset, count;
    uint64_t second;
  };

  explicit LowRank(uint32_t rank) : rank_(rank) {}

  uint32_t rank_;
  uint64_t num_params_ = 0;
  uint64_t num_left_ = 0;
  uint64_t num_right_ = 0;
  uint64_t num_whole_ = 0;
  std::vector<Matrix> matrices_;
  std::vector<Whole> whole_;
};

}  // namespace gdf::compress

#endif  // GDF_CORE_COMPRESS_LOW_RANK_H_
