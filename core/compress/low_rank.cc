#include "core/compress/low_rank.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/compress/double_dot.h"
#include "core/compress/kernels.h"
#include "core/compress/philox.h"

namespace gdf::compress {
namespace {

// Columns that are worked on together, so that those of every factor stay in the processor's cache.
constexpr uint64_t kStrip = 2048;
// A column of which less than this part is new lies in the span of those before it: what is left is their rounding.
// Float32 has 24 bits, and the sums that made it lose a few more.
constexpr double kNewPart = 0x1p-20;
// What random columns are for, so that none is drawn twice.
constexpr uint32_t kFirstRight = 0;
constexpr uint32_t kReplaced = 1;

// acc = acc + weight * values
void AddTo(const float* values, size_t count, float weight, float* acc) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values);
  SimdKernels().fp32.accumulate(bytes, count, weight, acc);
}

// Value i of a column, in [-1, 1).
struct RandomColumn {
  uint64_t seed;
  uint32_t matrix, column, use;

  float At(uint64_t i) const {
    const std::array<uint32_t, 4> words = Philox({static_cast<uint32_t>(i / 4), matrix, column, use}, seed);
    return static_cast<float>(static_cast<int32_t>(words[i % 4]) >> 8) * 0x1p-23f;
  }
};

// Makes `column` a unit vector that is orthogonal to the orthonormal `before`; false when they span it. Gram and
// Schmidt's way, as modified, twice: Giraud, Langou, Rozloznik 2005, "The loss of orthogonality in the Gram-Schmidt
// orthogonalization process".
bool MakeOrthonormal(absl::Span<const std::vector<double>> before, std::vector<double>* column) {
  const double length = std::sqrt(DoubleDot<double>(*column, *column));
  for (int pass = 0; pass < 2; ++pass) {
    for (const std::vector<double>& other : before) {
      const double part = DoubleDot<double>(other, *column);
      for (size_t i = 0; i < column->size(); ++i) (*column)[i] -= part * other[i];
    }
  }
  const double rest = std::sqrt(DoubleDot<double>(*column, *column));
  if (!(rest > kNewPart * length)) return false;
  for (double& value : *column) value /= rest;
  return true;
}

}  // namespace

absl::StatusOr<LowRank> LowRank::Create(const tensor::Layout& layout, uint32_t rank) {
  if (rank < 1 || rank > kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank, ", expected 1 to ", kMaxRank));
  }
  LowRank out(rank);
  out.num_params_ = layout.num_params();
  for (const tensor::TensorInfo& tensor : layout.tensors()) {
    const uint64_t rows = tensor.shape.size() < 2 ? 1 : static_cast<uint64_t>(tensor.shape[0]);
    const uint64_t columns = tensor.num_elems / rows;
    if (TakesApart(rank, rows, columns)) {
      out.matrices_.push_back({tensor.offset_elems, rows, columns, out.num_left_, out.num_right_});
      out.num_left_ += rank * rows;
      out.num_right_ += rank * columns;
    } else {
      out.whole_.push_back({tensor.offset_elems, tensor.num_elems, out.num_whole_});
      out.num_whole_ += tensor.num_elems;
    }
  }
  for (Whole& whole : out.whole_) whole.second += out.num_right_;
  return out;
}

void LowRank::FirstRight(uint64_t seed, absl::Span<float> right) const {
  GDF_CHECK(right.size() == num_right_);
  for (uint32_t m = 0; m < matrices_.size(); ++m) {
    const Matrix& matrix = matrices_[m];
    for (uint32_t j = 0; j < rank_; ++j) {
      const RandomColumn random{seed, m, j, kFirstRight};
      float* q = right.data() + matrix.right + j * matrix.columns;
      for (uint64_t c = 0; c < matrix.columns; ++c) q[c] = random.At(c);
    }
  }
}

void LowRank::TimesRight(absl::Span<const float> values, float scale, absl::Span<const float> right,
                         absl::Span<float> left) const {
  GDF_CHECK(values.size() == num_params_ && right.size() == num_right_ && left.size() == num_left_);
  const auto dot = SimdKernels().dot;
  for (const Matrix& matrix : matrices_) {
    for (uint64_t i = 0; i < matrix.rows; ++i) {
      const float* row = values.data() + matrix.offset + i * matrix.columns;
      for (uint64_t j = 0; j < rank_; ++j) {
        const float* q = right.data() + matrix.right + j * matrix.columns;
        left[matrix.left + j * matrix.rows + i] = scale * dot(row, q, matrix.columns);
      }
    }
  }
}

void LowRank::Orthonormalise(uint64_t seed, absl::Span<float> left) const {
  GDF_CHECK(left.size() == num_left_);
  std::vector<std::vector<double>> columns(rank_);
  for (uint32_t m = 0; m < matrices_.size(); ++m) {
    const Matrix& matrix = matrices_[m];
    for (uint32_t j = 0; j < rank_; ++j) {
      float* p = left.data() + matrix.left + j * matrix.rows;
      std::vector<double>& column = columns[j];
      const auto before = absl::MakeConstSpan(columns).subspan(0, j);
      column.assign(p, p + matrix.rows);
      // There are more rows than columns, so that soon one is found which they do not span.
      for (uint32_t use = kReplaced; !MakeOrthonormal(before, &column); ++use) {
        const RandomColumn random{seed, m, j, use};
        for (uint64_t i = 0; i < matrix.rows; ++i) column[i] = double{random.At(i)};
      }
      for (uint64_t i = 0; i < matrix.rows; ++i) p[i] = static_cast<float>(column[i]);
    }
  }
}

void LowRank::TimesLeft(absl::Span<const float> values, float scale, absl::Span<const float> left,
                        absl::Span<float> second) const {
  GDF_CHECK(values.size() == num_params_ && left.size() == num_left_ && second.size() == num_second());
  std::fill_n(second.data(), num_right_, 0.0f);
  for (const Matrix& matrix : matrices_) {
    for (uint64_t begin = 0; begin < matrix.columns; begin += kStrip) {
      const uint64_t count = std::min(kStrip, matrix.columns - begin);
      for (uint64_t i = 0; i < matrix.rows; ++i) {
        const float* row = values.data() + matrix.offset + i * matrix.columns + begin;
        for (uint64_t j = 0; j < rank_; ++j) {
          float* q = second.data() + matrix.right + j * matrix.columns + begin;
          AddTo(row, count, left[matrix.left + j * matrix.rows + i], q);
        }
      }
    }
  }
  for (const Whole& whole : whole_) {
    std::copy_n(values.data() + whole.offset, whole.count, second.data() + whole.second);
  }
  for (float& value : second) value *= scale;
}

void LowRank::NextRight(absl::Span<const float> second, absl::Span<float> right) const {
  GDF_CHECK(second.size() == num_second() && right.size() == num_right_);
  for (const Matrix& matrix : matrices_) {
    for (uint64_t j = 0; j < rank_; ++j) {
      const absl::Span<const float> q = second.subspan(matrix.right + j * matrix.columns, matrix.columns);
      float largest = 0.0f;
      for (const float value : q) largest = std::max(largest, std::abs(value));
      int exponent = 0;
      std::frexp(largest, &exponent);
      for (uint64_t c = 0; c < q.size(); ++c) {
        right[matrix.right + j * matrix.columns + c] = std::ldexp(q[c], -exponent);
      }
    }
  }
}

void LowRank::Accumulate(absl::Span<const float> left, absl::Span<const float> second, float weight,
                         absl::Span<float> acc) const {
  GDF_CHECK(left.size() == num_left_ && second.size() == num_second() && acc.size() == num_params_);
  std::vector<float> strip(kStrip);
  for (const Matrix& matrix : matrices_) {
    for (uint64_t begin = 0; begin < matrix.columns; begin += kStrip) {
      const uint64_t count = std::min(kStrip, matrix.columns - begin);
      for (uint64_t i = 0; i < matrix.rows; ++i) {
        std::fill_n(strip.data(), count, 0.0f);
        for (uint64_t j = 0; j < rank_; ++j) {
          const float* q = second.data() + matrix.right + j * matrix.columns + begin;
          AddTo(q, count, left[matrix.left + j * matrix.rows + i], strip.data());
        }
        AddTo(strip.data(), count, weight, acc.data() + matrix.offset + i * matrix.columns + begin);
      }
    }
  }
  for (const Whole& whole : whole_) {
    AddTo(second.data() + whole.second, whole.count, weight, acc.data() + whole.offset);
  }
}

}  // namespace gdf::compress
