// Expected values follow from PowerSGD's definition (arXiv:1905.13727, algorithm 1), worked out in double where it is
// not by hand.
#include "core/compress/low_rank.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "core/compress/low_rank_feedback.h"

namespace gdf::compress {
namespace {

using Floats = std::vector<float>;
using Shape = std::vector<int64_t>;

tensor::Layout LayoutOf(const std::vector<Shape>& shapes) {
  tensor::Layout layout;
  for (size_t i = 0; i < shapes.size(); ++i) REQUIRE(layout.Add("t" + std::to_string(i), shapes[i]).ok());
  return layout;
}

Floats Random(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  Floats values(count);
  for (float& value : values) value = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f;
  return values;
}

// A [rows, columns] matrix of `rank` random products, the later ones smaller by `decay`.
Floats Product(size_t rows, size_t columns, size_t rank, double decay, uint32_t seed) {
  const Floats a = Random(rows * rank, seed), b = Random(rank * columns, seed + 1);
  Floats out(rows * columns);
  for (size_t i = 0; i < rows; ++i) {
    for (size_t c = 0; c < columns; ++c) {
      double sum = 0;
      for (size_t k = 0; k < rank; ++k) {
        sum += std::pow(decay, k) * double{a[i * rank + k]} * double{b[k * columns + c]};
      }
      out[i * columns + c] = static_cast<float>(sum);
    }
  }
  return out;
}

double Norm(const Floats& values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * double{value};
  return std::sqrt(sum);
}

Floats Less(Floats a, const Floats& b) {
  for (size_t i = 0; i < a.size(); ++i) a[i] -= b[i];
  return a;
}

// Both passes of one node alone, `right` warm from one call to the next.
Floats Compressed(const LowRank& low_rank, const Floats& values, Floats* right, uint64_t seed = 1) {
  Floats left(low_rank.num_left()), second(low_rank.num_second()), out(values.size());
  low_rank.TimesRight(values, 1.0f, *right, absl::MakeSpan(left));
  low_rank.Orthonormalise(seed, absl::MakeSpan(left));
  low_rank.TimesLeft(values, 1.0f, left, absl::MakeSpan(second));
  low_rank.Accumulate(left, second, 1.0f, absl::MakeSpan(out));
  low_rank.NextRight(second, absl::MakeSpan(*right));
  return out;
}

Floats FirstRight(const LowRank& low_rank, uint64_t seed = 7) {
  Floats right(low_rank.num_right());
  low_rank.FirstRight(seed, absl::MakeSpan(right));
  return right;
}

TEST_CASE("tensors that are smaller as factors are taken apart, others go whole") {
  // 12 * 10 > 3 (12 + 10); 4 * 12 = 3 (4 + 12) is no less; [6, 5, 4] is 6 x 20: 120 > 78; a vector and a scalar have no rows.
  const LowRank low_rank = *LowRank::Create(LayoutOf({{12, 10}, {4, 12}, {100}, {6, 5, 4}, {}}), 3);
  CHECK(low_rank.num_params() == 120 + 48 + 100 + 120 + 1);
  CHECK(low_rank.num_left() == 3 * (12 + 6));
  CHECK(low_rank.num_right() == 3 * (10 + 20));
  CHECK(low_rank.num_second() == 3 * (10 + 20) + 48 + 100 + 1);
  CHECK(LowRank::Create(LayoutOf({}), 1)->num_second() == 0);
  CHECK(absl::IsInvalidArgument(LowRank::Create(LayoutOf({}), 0).status()));
  CHECK(absl::IsInvalidArgument(LowRank::Create(LayoutOf({}), LowRank::kMaxRank + 1).status()));
}

TEST_CASE("a matrix of one product, by hand") {
  // M = (1 2 2)ᵀ (3 0 4 0): M Q = 7 (1 2 2)ᵀ for Q = (1 0 1 0)ᵀ, P̂ = (1 2 2)ᵀ / 3, Mᵀ P̂ = 3 (3 0 4 0)ᵀ, scaled (9 0 12 0) / 16.
  const LowRank low_rank = *LowRank::Create(LayoutOf({{2}, {3, 4}}), 1);
  const Floats values = {0.5f, -0.25f, 3, 0, 4, 0, 6, 0, 8, 0, 6, 0, 8, 0};
  Floats left(3), second(6), right(4);
  low_rank.TimesRight(values, 1.0f, Floats{1, 0, 1, 0}, absl::MakeSpan(left));
  CHECK(left == Floats{7, 14, 14});
  low_rank.TimesRight(values, 0.5f, Floats{1, 0, 1, 0}, absl::MakeSpan(left));
  CHECK(left == Floats{3.5f, 7, 7});
  low_rank.Orthonormalise(1, absl::MakeSpan(left));
  CHECK(left == Floats{1 / 3.0f, 2 / 3.0f, 2 / 3.0f});
  low_rank.TimesLeft(values, 1.0f, left, absl::MakeSpan(second));
  CHECK(second[1] == 0.0f);
  CHECK(second[4] == 0.5f);
  CHECK(second[5] == -0.25f);
  CHECK(second[0] == Approx(9));
  CHECK(second[2] == Approx(12));
  low_rank.NextRight(second, absl::MakeSpan(right));
  CHECK(right[0] == second[0] / 16);
  CHECK(right[2] == second[2] / 16);
  Floats sum(14, 1.0f);
  low_rank.Accumulate(left, second, 2.0f, absl::MakeSpan(sum));
  CHECK(sum[0] == 2.0f);
  CHECK(sum[1] == 0.5f);
  for (size_t i = 2; i < 14; ++i) CHECK(sum[i] == Approx(1 + 2 * values[i]));
}

TEST_CASE("a matrix of no higher rank is kept, whatever Q it begins with") {
  for (const auto& [rows, columns] : {std::pair<int64_t, int64_t>{40, 30}, {17, 5000}, {900, 11}}) {
    for (const size_t rank : {1, 3, 4}) {
      const LowRank low_rank = *LowRank::Create(LayoutOf({{rows, columns}}), 4);
      const Floats matrix = Product(static_cast<size_t>(rows), static_cast<size_t>(columns), rank, 0.5, 3);
      Floats right = FirstRight(low_rank);
      CHECK(Norm(Less(Compressed(low_rank, matrix, &right), matrix)) <= 1e-5 * Norm(matrix));
      // Its last columns of Q were the rounding of nothing, if there were any.
      CHECK(Norm(Less(Compressed(low_rank, matrix, &right), matrix)) <= 1e-5 * Norm(matrix));
    }
  }
}

TEST_CASE("columns become orthonormal, whatever they were") {
  constexpr uint64_t kRows = 50;
  constexpr uint32_t kRank = 6;
  const LowRank low_rank = *LowRank::Create(LayoutOf({{kRows, 40}}), kRank);
  Floats zeros(kRows * kRank);
  Floats equal = Random(kRows, 1);
  for (uint32_t j = 1; j < kRank; ++j) equal.insert(equal.end(), equal.begin(), equal.begin() + kRows);
  Floats nearly = equal;
  for (size_t i = 0; i < nearly.size(); ++i) nearly[i] *= 1 + 0x1p-12f * Random(nearly.size(), 2)[i];
  Floats huge = Random(kRows * kRank, 3), tiny = huge;
  for (float& value : huge) value *= 0x1p127f;
  for (float& value : tiny) value *= 0x1p-140f;
  Floats one(kRows * kRank);
  one[kRows * 2 + 5] = 1.0f;
  for (const Floats& given : {zeros, equal, nearly, huge, tiny, one, Random(kRows * kRank, 4)}) {
    Floats left = given, again = given, other = given;
    low_rank.Orthonormalise(9, absl::MakeSpan(left));
    low_rank.Orthonormalise(9, absl::MakeSpan(again));
    CHECK(left == again);
    for (uint32_t a = 0; a < kRank; ++a) {
      for (uint32_t b = 0; b <= a; ++b) {
        double product = 0;
        for (uint64_t i = 0; i < kRows; ++i) product += double{left[a * kRows + i]} * double{left[b * kRows + i]};
        CHECK(std::abs(product - (a == b ? 1.0 : 0.0)) < 1e-6);
      }
    }
    // Others where nothing was, with another seed, and only there.
    low_rank.Orthonormalise(10, absl::MakeSpan(other));
    const bool replaced = given == zeros || given == equal || given == one;
    CHECK((other != left) == replaced);
  }
}

TEST_CASE("the first Q is the same for a seed, and another for another") {
  const LowRank low_rank = *LowRank::Create(LayoutOf({{30, 40}, {40, 30}}), 2);
  const Floats right = FirstRight(low_rank, 7);
  CHECK(FirstRight(low_rank, 7) == right);
  CHECK(FirstRight(low_rank, 8) != right);
  double sum = 0, squares = 0;
  for (const float value : right) {
    CHECK((value >= -1.0f && value < 1.0f));
    sum += value;
    squares += value * value;
  }
  const double n = static_cast<double>(right.size());  // 140, of variance 1/3: mean within 4 of its deviations
  CHECK(std::abs(sum / n) < 4 * std::sqrt(1 / 3.0 / n));
  CHECK(squares / n == Approx(1 / 3.0).margin(0.1));
  CHECK(Floats(right.begin(), right.begin() + 40) != Floats(right.begin() + 40, right.begin() + 80));
}

// A warm start is a step of subspace iteration. Its limit is the best matrix of the rank (Eckart, Young 1936): of
// M = U diag(s) Vᵀ that leaves the values of s from the rank on.
TEST_CASE("with a warm start the error of a matrix that stays falls to the least there is") {
  constexpr size_t kRank = 4;
  const LowRank low_rank = *LowRank::Create(LayoutOf({{64, 48}}), kRank);
  // Singular vectors: of the discrete sine transform, orthonormal by its definition.
  constexpr double kPi = 3.14159265358979323846;
  const auto sine = [&](double n, double i, double k) {
    return std::sqrt(2 / (n + 1)) * std::sin(kPi * (i + 1) * (k + 1) / (n + 1));
  };
  Floats matrix(64 * 48);
  double least = 0;
  for (size_t k = 0; k < 48; ++k) {
    const double s = std::pow(0.8, k);
    if (k >= kRank) least += s * s;
    for (size_t i = 0; i < 64; ++i) {
      for (size_t c = 0; c < 48; ++c) {
        matrix[i * 48 + c] += static_cast<float>(s * sine(64, static_cast<double>(i), static_cast<double>(k)) *
                                                 sine(48, static_cast<double>(c), static_cast<double>(k)));
      }
    }
  }
  least = std::sqrt(least);
  Floats right = FirstRight(low_rank);
  double before = std::numeric_limits<double>::infinity();
  for (int round = 0; round < 40; ++round) {
    const double error = Norm(Less(Compressed(low_rank, matrix, &right), matrix));
    CHECK(error <= before * (1 + 1e-6));
    CHECK(error >= least * (1 - 1e-5));
    if (round == 0) CHECK(error > 1.1 * least);
    before = error;
  }
  CHECK(before <= 1.001 * least);
}

// Both halves are linear in the matrix while Q and P̂ are everybody's.
TEST_CASE("the means of the nodes' factors are the factors of their mean matrix") {
  constexpr int kNodes = 4;
  const tensor::Layout layout = LayoutOf({{33, 65}, {7}, {64, 31}});
  const LowRank low_rank = *LowRank::Create(layout, 3);
  const Floats right = FirstRight(low_rank);
  std::vector<Floats> deltas;
  Floats mean(layout.num_params());
  for (uint32_t node = 0; node < kNodes; ++node) {
    deltas.push_back(Random(mean.size(), node));
    for (size_t i = 0; i < mean.size(); ++i) mean[i] += deltas.back()[i] / kNodes;
  }
  const auto mean_of = [&](uint64_t size, auto factors) {
    Floats sum(size);
    for (const Floats& delta : deltas) {
      Floats one(size);
      factors(delta, absl::MakeSpan(one));
      for (size_t i = 0; i < size; ++i) sum[i] += one[i] / kNodes;
    }
    return sum;
  };
  Floats left = mean_of(low_rank.num_left(), [&](const Floats& delta, absl::Span<float> out) {
    low_rank.TimesRight(delta, 1.0f, right, out);
  });
  Floats of_mean(left.size());
  low_rank.TimesRight(mean, 1.0f, right, absl::MakeSpan(of_mean));
  CHECK(Norm(Less(left, of_mean)) <= 1e-6 * Norm(of_mean));
  low_rank.Orthonormalise(1, absl::MakeSpan(left));
  const Floats second = mean_of(low_rank.num_second(), [&](const Floats& delta, absl::Span<float> out) {
    low_rank.TimesLeft(delta, 1.0f, left, out);
  });
  Floats second_of_mean(second.size());
  low_rank.TimesLeft(mean, 1.0f, left, absl::MakeSpan(second_of_mean));
  CHECK(Norm(Less(second, second_of_mean)) <= 1e-6 * Norm(second_of_mean));
}

// --- LowRankFeedback ---

struct Node {
  Node(const LowRank& low_rank, ErrorFeedbackOptions options = {})
      : feedback(*LowRankFeedback::Create(low_rank, options)), left(low_rank.num_left()), second(low_rank.num_second()) {}

  absl::Status Stage(const Floats& delta, const Floats& right) {
    const auto source = [&](uint64_t first, absl::Span<float> out) {
      std::copy_n(delta.data() + first, out.size(), out.data());
      return absl::OkStatus();
    };
    return feedback.Stage(source, right, absl::MakeSpan(left));
  }
  absl::Status Project(const Floats& mean) { return feedback.Project(mean, 1, absl::MakeSpan(second)); }

  LowRankFeedback feedback;
  Floats left, second;
};

Floats MeanOf(const Floats& a, const Floats& b) {
  Floats mean(a.size());
  for (size_t i = 0; i < a.size(); ++i) mean[i] = (a[i] + b[i]) / 2;
  return mean;
}

// With deltas that stay, the sum of what is applied over the rounds is their sum but for the residuals, which stay small:
// the mean of it comes to the deltas' mean.
TEST_CASE("what two nodes have applied comes to the mean of their deltas") {
  const tensor::Layout layout = LayoutOf({{24, 20}, {5}});
  const LowRank low_rank = *LowRank::Create(layout, 2);
  const Floats a = Random(layout.num_params(), 1), b = Random(layout.num_params(), 2);
  const Floats mean = MeanOf(a, b);
  Node one(low_rank), other(low_rank);
  Floats right = FirstRight(low_rank);
  std::vector<double> applied(mean.size());
  double error_at_10 = 0;
  constexpr int kRounds = 160;
  for (int round = 1; round <= kRounds; ++round) {
    REQUIRE(one.Stage(a, right).ok());
    REQUIRE(other.Stage(b, right).ok());
    Floats left = MeanOf(one.left, other.left);
    REQUIRE(one.Project(left).ok());
    REQUIRE(other.Project(left).ok());
    const Floats second = MeanOf(one.second, other.second);
    low_rank.Orthonormalise(1, absl::MakeSpan(left));
    Floats update(mean.size());
    low_rank.Accumulate(left, second, 1.0f, absl::MakeSpan(update));
    low_rank.NextRight(second, absl::MakeSpan(right));
    REQUIRE(one.feedback.Settle(true).ok());
    REQUIRE(other.feedback.Settle(true).ok());
    Floats off(mean.size());
    double worst = 0;
    for (size_t i = 0; i < mean.size(); ++i) {
      applied[i] += update[i];
      off[i] = static_cast<float>(applied[i] / round) - mean[i];
      // Nothing is lost: what was applied and what remains are the sum of the deltas.
      const double remains = (double{one.feedback.residual()[i]} + double{other.feedback.residual()[i]}) / 2;
      worst = std::max(worst, std::abs(applied[i] + remains - round * double{mean[i]}));
    }
    CHECK(worst <= round * 1e-5);
    if (round == 10) error_at_10 = Norm(off);
    if (round == kRounds) CHECK(Norm(off) < error_at_10 / 8);
  }
}

TEST_CASE("a low-rank contribution that was not applied is carried whole by the next one") {
  const tensor::Layout layout = LayoutOf({{24, 20}, {5}});
  const LowRank low_rank = *LowRank::Create(layout, 2);
  const Floats delta = Random(layout.num_params(), 1);
  const Floats right = FirstRight(low_rank);
  Node node(low_rank);
  REQUIRE(node.Stage(delta, right).ok());
  const Floats first = node.left;
  REQUIRE(node.Project(node.left).ok());
  REQUIRE(node.feedback.Settle(false).ok());
  CHECK(Floats(node.feedback.residual().begin(), node.feedback.residual().end()) == delta);
  REQUIRE(node.Stage(Floats(delta.size()), right).ok());
  CHECK(node.left == first);
}

TEST_CASE("only the last of several projections is taken from the residual") {
  const tensor::Layout layout = LayoutOf({{24, 20}});
  const LowRank low_rank = *LowRank::Create(layout, 2);
  const Floats delta = Random(layout.num_params(), 1);
  const Floats right = FirstRight(low_rank), mean = Random(low_rank.num_left(), 5);
  Node once(low_rank), twice(low_rank);
  REQUIRE(once.Stage(delta, right).ok());
  REQUIRE(twice.Stage(delta, right).ok());
  REQUIRE(twice.Project(Random(low_rank.num_left(), 6)).ok());
  REQUIRE(once.Project(mean).ok());
  REQUIRE(twice.Project(mean).ok());
  CHECK(once.second == twice.second);
  REQUIRE(once.feedback.Settle(true).ok());
  REQUIRE(twice.feedback.Settle(true).ok());
  CHECK(once.feedback.residual() == twice.feedback.residual());
}

TEST_CASE("what a process before this one had applied is not carried on") {
  const tensor::Layout layout = LayoutOf({{24, 20}});
  const LowRank low_rank = *LowRank::Create(layout, 2);
  Node node(low_rank);
  REQUIRE(node.Stage(Random(layout.num_params(), 1), FirstRight(low_rank)).ok());
  REQUIRE(node.feedback.Settle(true).ok());
  CHECK(Norm(Floats(node.feedback.residual().begin(), node.feedback.residual().end())) == 0);
}

TEST_CASE("a low-rank contribution is clipped as a whole") {
  const tensor::Layout layout = LayoutOf({{12, 12}, {3}});
  const LowRank low_rank = *LowRank::Create(layout, 1);
  const Floats delta = Random(layout.num_params(), 1);
  const Floats right = FirstRight(low_rank);
  Node whole(low_rank), clipped(low_rank, {1.0f, Norm(delta) / 4});
  REQUIRE(whole.Stage(delta, right).ok());
  REQUIRE(clipped.Stage(delta, right).ok());
  CHECK(clipped.feedback.last_norm() == Approx(Norm(delta)));
  REQUIRE(whole.Project(whole.left).ok());
  REQUIRE(clipped.Project(whole.left).ok());
  for (size_t i = 0; i < whole.left.size(); ++i) CHECK(clipped.left[i] == Approx(whole.left[i] / 4));
  for (size_t i = 0; i < whole.second.size(); ++i) CHECK(clipped.second[i] == Approx(whole.second[i] / 4));
}

TEST_CASE("a low-rank contribution is refused where it cannot be made, or out of turn") {
  const tensor::Layout layout = LayoutOf({{12, 12}, {3}});
  const LowRank low_rank = *LowRank::Create(layout, 1);
  const Floats right = FirstRight(low_rank);
  Floats delta = Random(layout.num_params(), 1);
  Node node(low_rank);
  CHECK(absl::IsFailedPrecondition(node.Project(node.left)));
  CHECK(absl::IsFailedPrecondition(node.feedback.Settle(true)));
  CHECK(absl::IsInvalidArgument(node.Stage(delta, Floats(11))));
  Floats bad = right;
  bad[3] = std::numeric_limits<float>::infinity();
  CHECK(absl::IsInvalidArgument(node.Stage(delta, bad)));
  delta[7] = std::numeric_limits<float>::quiet_NaN();
  CHECK(absl::IsInvalidArgument(node.Stage(delta, right)));
  CHECK(Norm(Floats(node.feedback.residual().begin(), node.feedback.residual().end())) == 0);
  delta[7] = 0;
  REQUIRE(node.Stage(delta, right).ok());
  CHECK(absl::IsFailedPrecondition(node.Stage(delta, right)));
  CHECK(absl::IsFailedPrecondition(node.feedback.SetOptions({})));
  CHECK(absl::IsInvalidArgument(node.Project(Floats(3))));
  CHECK(absl::IsInvalidArgument(node.Project(Floats(12, std::numeric_limits<float>::quiet_NaN()))));
  REQUIRE(node.Project(node.left).ok());
  REQUIRE(node.feedback.Settle(true).ok());
  const Floats huge(layout.num_params(), 3e38f);
  CHECK(absl::IsInvalidArgument(Node(low_rank).Stage(huge, Floats(12, 1.0f))));
}

}  // namespace
}  // namespace gdf::compress
