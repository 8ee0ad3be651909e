#include "core/aggregate/weighted_mean.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "core/tensor/flat_buffer.h"

namespace gdf::aggregate {
namespace {

using Bytes = std::vector<uint8_t>;
using Catch::Matchers::Contains;
using Floats = std::vector<float>;

std::unique_ptr<compress::Codec> Make(const std::string& text) {
  return *compress::Codec::Create(*compress::CodecSpec::Parse(text));
}

Bytes Encode(const compress::Codec& codec, const Floats& values) {
  Bytes packed(codec.PackedSize(values.size()));
  codec.Encode(values, absl::MakeSpan(packed));
  return packed;
}

// The bits of the mean, computed range by range.
Bytes Mean(const compress::Codec& codec, const std::vector<Bytes>& contributions,
           const Floats& weights, size_t num_values, size_t range) {
  Floats out(num_values, 7.0f);
  for (size_t begin = 0; begin < num_values; begin += range) {
    const size_t end = std::min(num_values, begin + range);
    absl::StatusOr<WeightedMean> mean =
        WeightedMean::Create(&codec, weights, absl::MakeSpan(out).subspan(begin, end - begin));
    REQUIRE(mean.ok());
    for (size_t member = 0; member < contributions.size(); ++member) {
      REQUIRE(mean->Add(member, absl::MakeSpan(contributions[member])
                                    .subspan(codec.PackedSize(begin),
                                             codec.PackedSize(end) - codec.PackedSize(begin)))
                  .ok());
    }
    REQUIRE(mean->Finish().ok());
  }
  const auto bytes = tensor::AsBytes(out);
  return Bytes(bytes.begin(), bytes.end());
}

TEST_CASE("a weighted mean worked out by hand") {
  const auto codec = Make("fp32");
  Floats out(2);
  absl::StatusOr<WeightedMean> mean =
      WeightedMean::Create(codec.get(), {1.0f, 3.0f}, absl::MakeSpan(out));
  REQUIRE(mean.ok());
  REQUIRE(mean->Add(0, Encode(*codec, {2.0f, -8.0f})).ok());
  REQUIRE(mean->Add(1, Encode(*codec, {6.0f, 0.0f})).ok());
  REQUIRE(mean->Finish().ok());
  CHECK(out == Floats{5.0f, -2.0f});  // (2 + 18) / 4, -8 / 4
}

TEST_CASE("the sum is taken in member order with float32 rounding") {
  // 2^24 + 1 rounds to 2^24 (tie to even), so 1 + 1 first or last gives different sums.
  const auto codec = Make("fp32");
  const auto sum3 = [&](float a, float b, float c) {
    Floats out(1);
    WeightedMean mean = *WeightedMean::Create(codec.get(), {1.0f, 1.0f, 1.0f}, absl::MakeSpan(out));
    REQUIRE(mean.Add(0, Encode(*codec, {a})).ok());
    REQUIRE(mean.Add(1, Encode(*codec, {b})).ok());
    REQUIRE(mean.Add(2, Encode(*codec, {c})).ok());
    REQUIRE(mean.Finish().ok());
    return out[0];
  };
  CHECK(sum3(0x1p24f, 1.0f, 1.0f) == 0x1p24f / 3.0f);
  CHECK(sum3(1.0f, 1.0f, 0x1p24f) == (0x1p24f + 2.0f) / 3.0f);
}

TEST_CASE("equal contributions of one member have their own value as mean") {
  const auto codec = Make("fp32");
  Floats out(1);
  WeightedMean mean = *WeightedMean::Create(codec.get(), {1.0f}, absl::MakeSpan(out));
  REQUIRE(mean.Add(0, Encode(*codec, {0.1f})).ok());
  REQUIRE(mean.Finish().ok());
  CHECK(out[0] == 0.1f);
}

TEST_CASE("the mean does not depend on how elements are divided") {
  constexpr size_t kValues = 10'007;
  std::mt19937 random(3);
  for (const char* name : {"fp32", "bf16", "int8:64", "int8"}) {
    const auto codec = Make(name);
    std::vector<Bytes> contributions;
    Floats weights;
    for (int member = 0; member < 5; ++member) {
      Floats values(kValues);
      for (float& value : values)
        value = static_cast<float>(static_cast<int32_t>(random())) * 1e-9f;
      contributions.push_back(Encode(*codec, values));
      weights.push_back(1.0f + 0.37f * member);
    }
    const Bytes whole = Mean(*codec, contributions, weights, kValues, kValues);
    for (const size_t range : {size_t{256}, size_t{768}, size_t{4096}}) {
      CHECK(Mean(*codec, contributions, weights, kValues, range) == whole);
    }
  }
}

TEST_CASE("contributions out of turn or refused by the codec are errors that name the member") {
  const auto codec = Make("fp32");
  const Bytes good = Encode(*codec, {1.0f});
  Floats out(1);
  WeightedMean mean = *WeightedMean::Create(codec.get(), {1.0f, 1.0f}, absl::MakeSpan(out));
  CHECK(mean.Add(1, good).code() == absl::StatusCode::kFailedPrecondition);
  REQUIRE(mean.Add(0, good).ok());
  CHECK(mean.next() == 1);
  CHECK(mean.Add(0, good).code() == absl::StatusCode::kFailedPrecondition);
  CHECK(mean.Finish().code() == absl::StatusCode::kFailedPrecondition);
  const absl::Status refused = mean.Add(1, Bytes{0, 0, 0x80, 0x7F});
  CHECK(refused.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(refused.message()), Contains("member 1") && Contains("infinite"));
  CHECK(mean.Add(1, good).code() == absl::StatusCode::kFailedPrecondition);
  mean.Reset();
  REQUIRE(mean.Add(0, good).ok());
  REQUIRE(mean.Add(1, good).ok());
  CHECK(mean.Add(2, good).code() == absl::StatusCode::kFailedPrecondition);
  REQUIRE(mean.Finish().ok());
  CHECK(out[0] == 1.0f);
  CHECK(mean.Finish().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("a mean that overflows is refused") {
  const auto codec = Make("fp32");
  const Bytes huge = Encode(*codec, {std::numeric_limits<float>::max()});
  Floats out(1);
  WeightedMean mean = *WeightedMean::Create(codec.get(), {1.0f, 1.0f}, absl::MakeSpan(out));
  REQUIRE(mean.Add(0, huge).ok());
  REQUIRE(mean.Add(1, huge).ok());
  CHECK(mean.Finish().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("weights are checked") {
  const auto codec = Make("fp32");
  CHECK(CheckWeights({1.0f, 1e14f, 1e-30f}).ok());
  CHECK(!CheckWeights({}).ok());
  CHECK(!CheckWeights(Floats(kMaxContributions + 1, 1.0f)).ok());
  for (const float bad :
       {0.0f, -0.0f, -1.0f, 1.1e14f, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const absl::Status status = WeightedMean::Create(codec.get(), {1.0f, bad}, {}).status();
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()), Contains("member 1"));
  }
}

}  // namespace
}  // namespace gdf::aggregate
