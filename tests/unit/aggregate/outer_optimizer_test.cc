#include "core/aggregate/outer_optimizer.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace gdf::aggregate {
namespace {

using Catch::Matchers::Contains;
using Floats = std::vector<float>;

struct State {
  Floats theta, momentum;
  friend bool operator==(const State&, const State&) = default;
};

State Step(const OuterSgd& sgd, const State& from, const Floats& delta, size_t range) {
  State to{Floats(from.theta.size()), Floats(from.momentum.size())};
  for (size_t begin = 0; begin < delta.size(); begin += range) {
    const auto cut = [&](auto span) { return span.subspan(std::min(begin, span.size()), range); };
    REQUIRE(OuterStep(sgd, {cut(absl::MakeConstSpan(from.theta)), cut(absl::MakeConstSpan(delta)),
                            cut(absl::MakeConstSpan(from.momentum)), cut(absl::MakeSpan(to.theta)),
                            cut(absl::MakeSpan(to.momentum))})
                .ok());
  }
  return to;
}

State Step(const OuterSgd& sgd, const State& from, const Floats& delta) {
  return Step(sgd, from, delta, delta.size());
}

Floats Random(size_t n, uint32_t seed) {
  std::mt19937 random(seed);
  Floats values(n);
  for (float& value : values) value = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f;
  return values;
}

TEST_CASE("outer steps worked out by hand") {
  const State from{{10.0f, -4.0f}, {2.0f, 0.0f}};
  const Floats delta = {1.0f, 2.0f};
  // m = 0.5 * 2 + 1 = 2 and 2;  direction = delta + 0.5 m = 2 and 3;  theta - 0.25 * direction
  CHECK(Step({0.25f, 0.5f, true}, from, delta) == State{{9.5f, -4.75f}, {2.0f, 2.0f}});
  // direction = m
  CHECK(Step({0.25f, 0.5f, false}, from, delta) == State{{9.5f, -4.5f}, {2.0f, 2.0f}});
  CHECK(Step({0.25f, 0.0f, true}, {from.theta, {}}, delta) == State{{9.75f, -4.5f}, {}});
}

TEST_CASE("rate 1 without momentum is exactly theta minus delta") {
  const Floats theta = Random(1003, 1), delta = Random(1003, 2);
  Floats expected(theta.size());
  for (size_t i = 0; i < theta.size(); ++i) expected[i] = theta[i] - delta[i];
  for (const bool nesterov : {false, true}) {
    CHECK(Step({1.0f, 0.0f, nesterov}, {theta, {}}, delta).theta == expected);
  }
}

TEST_CASE("Nesterov at 0.7 and 0.9 does what the PyTorch reference's lines do") {
  // momentum.mul_(0.9).add_(delta); p -= 0.7 * (delta + 0.9 * momentum), each operation rounded to
  // float32; volatile keeps them apart here.
  const OuterSgd sgd{0.7f, 0.9f, true};
  State state{Random(517, 3), Floats(517)};
  for (uint32_t round = 0; round < 5; ++round) {
    const Floats delta = Random(517, 10 + round);
    State expected = state;
    for (size_t i = 0; i < delta.size(); ++i) {
      volatile float m = 0.9f * state.momentum[i];
      m = m + delta[i];
      volatile float step = 0.9f * m;
      step = delta[i] + step;
      step = 0.7f * step;
      expected.theta[i] = state.theta[i] - step;
      expected.momentum[i] = m;
    }
    state = Step(sgd, state, delta);
    CHECK(state == expected);
  }
}

TEST_CASE("an outer step does not depend on how elements are divided") {
  const State from{Random(10'007, 4), Random(10'007, 5)};
  const Floats delta = Random(10'007, 6);
  for (const OuterSgd& sgd : {OuterSgd{0.7f, 0.9f, true}, OuterSgd{0.3f, 0.5f, false}}) {
    const State whole = Step(sgd, from, delta);
    for (const size_t range : {1, 7, 64, 5000}) CHECK(Step(sgd, from, delta, range) == whole);
  }
}

TEST_CASE("the result may replace the delta") {
  const State from{Random(10'007, 4), Random(10'007, 5)};
  const Floats delta = Random(10'007, 6);
  for (const OuterSgd& sgd : {OuterSgd{0.7f, 0.9f, true}, OuterSgd{0.3f, 0.5f, false}}) {
    State to{delta, Floats(delta.size())};
    REQUIRE(OuterStep(sgd, {from.theta, to.theta, from.momentum, absl::MakeSpan(to.theta),
                            absl::MakeSpan(to.momentum)})
                .ok());
    CHECK(to == Step(sgd, from, delta));
  }
  Floats theta = delta;
  REQUIRE(OuterStep({0.5f, 0.0f}, {from.theta, theta, {}, absl::MakeSpan(theta), {}}).ok());
  CHECK(theta == Step({0.5f, 0.0f}, {from.theta, {}}, delta).theta);
}

TEST_CASE("outer options, lengths and results are checked") {
  const float nan = std::nanf("");
  for (const OuterSgd& bad :
       {OuterSgd{0.0f, 0.9f}, OuterSgd{-1.0f, 0.9f}, OuterSgd{10.5f, 0.9f}, OuterSgd{nan, 0.9f},
        OuterSgd{0.7f, 1.0f}, OuterSgd{0.7f, -0.1f}, OuterSgd{0.7f, nan}}) {
    CHECK(bad.Validate().code() == absl::StatusCode::kInvalidArgument);
    CHECK(OuterStep(bad, {}).code() == absl::StatusCode::kInvalidArgument);
  }
  CHECK(OuterSgd{}.Validate().ok());

  const Floats two(2, 1.0f), one(1, 1.0f);
  Floats theta_out(2), momentum_out(2);
  const OuterSgd sgd;
  CHECK(OuterStep(sgd, {two, two, two, absl::MakeSpan(theta_out), absl::MakeSpan(momentum_out)})
            .ok());
  const absl::Status status =
      OuterStep(sgd, {two, one, two, absl::MakeSpan(theta_out), absl::MakeSpan(momentum_out)});
  CHECK_THAT(std::string(status.message()), Contains("delta 1"));
  CHECK(!OuterStep(sgd, {two, two, {}, absl::MakeSpan(theta_out), {}}).ok());
  CHECK(!OuterStep({1.0f, 0.0f},
                   {two, two, two, absl::MakeSpan(theta_out), absl::MakeSpan(momentum_out)})
             .ok());
  const Floats huge(2, std::numeric_limits<float>::max()), minus(2, -huge[0]);
  CHECK(OuterStep({1.0f, 0.0f}, {huge, minus, {}, absl::MakeSpan(theta_out), {}}).code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(OuterStep(sgd, {two, huge, huge, absl::MakeSpan(theta_out), absl::MakeSpan(momentum_out)})
            .code() == absl::StatusCode::kInvalidArgument);
  Floats far(5000, 1.0f), far_out(5000);
  far[4999] = std::numeric_limits<float>::infinity();
  const Floats zeros(5000);
  CHECK_THAT(
      std::string(OuterStep({1.0f, 0.0f}, {far, zeros, {}, absl::MakeSpan(far_out), {}}).message()),
      Contains("element 4999 of 5000"));
}

}  // namespace
}  // namespace gdf::aggregate
