// Expected values follow from the definition in DESIGN: e <- beta e + delta, u = clip(e),
// c = encode(u), e <- u - decode(c) once c was applied.
#include "core/compress/error_feedback.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace gdf::compress {
namespace {

using Floats = std::vector<float>;

struct Node {
  explicit Node(uint64_t n, const std::string& codec_name, ErrorFeedbackOptions options = {})
      : codec(*Codec::Create(*CodecSpec::Parse(codec_name))),
        feedback(*ErrorFeedback::Create(n, codec.get(), options)),
        packed(codec->PackedSize(n)) {}

  // What the network would apply of this contribution.
  Floats Stage(const Floats& delta, uint64_t rounding_seed = 0) {
    REQUIRE(feedback.Stage(delta, absl::MakeSpan(packed), rounding_seed).ok());
    Floats sent(delta.size());
    REQUIRE(codec->Decode(packed, absl::MakeSpan(sent)).ok());
    return sent;
  }
  Floats Residual() const { return Floats(feedback.residual().begin(), feedback.residual().end()); }

  std::unique_ptr<Codec> codec;
  ErrorFeedback feedback;
  std::vector<uint8_t> packed;
};

TEST_CASE("the residual is what the codec lost, once the contribution was applied") {
  Node node(3, "int8:64");
  // Scale 1: 0.5 and 1.25 become 0 and 1.
  CHECK(node.Stage({127.0f, 0.5f, 1.25f}) == Floats{127.0f, 0.0f, 1.0f});
  CHECK(node.feedback.staged());
  REQUIRE(node.feedback.Settle(true).ok());
  CHECK(!node.feedback.staged());
  CHECK(node.Residual() == Floats{0.0f, 0.5f, 0.25f});
  // The next contribution carries it: 0.5 + 0.5 = 1, 0.25 + 0.25 = 0.5 ties to 0.
  CHECK(node.Stage({127.0f, 0.5f, 0.25f}) == Floats{127.0f, 1.0f, 0.0f});
  REQUIRE(node.feedback.Settle(true).ok());
  CHECK(node.Residual() == Floats{0.0f, 0.0f, 0.5f});
}

TEST_CASE("a contribution that was not applied is carried whole by the next one") {
  Node node(2, "int8:64");
  node.Stage({127.0f, 0.25f});
  REQUIRE(node.feedback.Settle(true).ok());
  node.Stage({10.0f, 1.0f});
  REQUIRE(node.feedback.Settle(false).ok());
  CHECK(node.Residual() == Floats{10.0f, 1.25f});
  CHECK(node.Stage({117.0f, 0.75f}) == Floats{127.0f, 2.0f});
}

TEST_CASE("what was applied and what remains telescope to the sum of the deltas") {
  // Dyadic deltas of one size, so that every float32 sum here is exact.
  constexpr size_t kValues = 1000;
  for (const char* codec : {"fp32", "bf16", "int8:64", "int8"}) {
    Node node(kValues, codec);
    std::mt19937 random(7);
    std::vector<double> total(kValues), applied(kValues);
    for (int round = 0; round < 50; ++round) {
      Floats delta(kValues);
      for (size_t i = 0; i < kValues; ++i) {
        delta[i] = static_cast<float>(static_cast<int>(random() % 257) - 128) / 256;
        total[i] += delta[i];
      }
      const Floats sent = node.Stage(delta);
      const bool lost = round % 5 == 4;
      REQUIRE(node.feedback.Settle(!lost).ok());
      for (size_t i = 0; i < kValues && !lost; ++i) applied[i] += sent[i];
    }
    double worst = 0.0;
    for (size_t i = 0; i < kValues; ++i) {
      worst = std::max(worst, std::abs(total[i] - applied[i] - node.feedback.residual()[i]));
    }
    INFO(codec);
    // Only float32 roundings of u - decode(c), |u| < 2: 50 rounds of at most 2^-24 each way.
    CHECK(worst <= 50 * 0x1p-23);
  }
}

TEST_CASE("a long contribution is packed as by one call of the codec") {
  constexpr size_t kValues = 200'001;  // several of the pieces that Stage works in
  std::mt19937 random(9);
  Floats delta(kValues);
  for (float& value : delta) value = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f;
  for (const char* name : {"fp32", "bf16", "int8:64", "int8:4096", "int8:64:stochastic", "int4:stochastic"}) {
    Node node(kValues, name);
    const Floats sent = node.Stage(delta, 9);
    std::vector<uint8_t> packed(node.packed.size());
    node.codec->Encode(delta, absl::MakeSpan(packed), {.seed = 9});
    CHECK(node.packed == packed);
    REQUIRE(node.feedback.Settle(true).ok());
    int wrong = 0;
    for (size_t i = 0; i < kValues; ++i) wrong += node.feedback.residual()[i] != delta[i] - sent[i];
    CHECK(wrong == 0);
  }
}

TEST_CASE("beta fades the residual") {
  Node node(2, "int8:64", {.beta = 0.5f});
  node.Stage({127.0f, 0.25f});
  REQUIRE(node.feedback.Settle(true).ok());
  CHECK(node.Residual() == Floats{0.0f, 0.25f});
  node.Stage({127.0f, 0.125f});  // 0.5 * 0.25 + 0.125
  REQUIRE(node.feedback.Settle(true).ok());
  CHECK(node.Residual() == Floats{0.0f, 0.25f});
}

TEST_CASE("a contribution longer than max_norm is scaled to it and the rest is dropped") {
  Node node(2, "fp32", {.max_norm = 2.5});
  // |(3, 4)| = 5: half of it goes out, and fp32 loses nothing.
  CHECK(node.Stage({3.0f, 4.0f}) == Floats{1.5f, 2.0f});
  CHECK(node.feedback.last_norm() == 5.0);
  REQUIRE(node.feedback.Settle(true).ok());
  CHECK(node.Residual() == Floats{0.0f, 0.0f});
  CHECK(node.Stage({1.5f, 2.0f}) == Floats{1.5f, 2.0f});  // exactly max_norm: untouched
  REQUIRE(node.feedback.Settle(false).ok());
  CHECK(node.Residual() == Floats{1.5f, 2.0f});
}

TEST_CASE("the norm counts every element") {
  for (const size_t n : {1, 7, 8, 9, 100}) {
    Node node(n, "fp32");
    node.Stage(Floats(n, 2.0f));
    CHECK(node.feedback.last_norm() == Approx(2.0 * std::sqrt(static_cast<double>(n))));
  }
}

TEST_CASE("stage and settle come in turns and refuse what is not finite") {
  Node node(2, "fp32");
  CHECK(node.feedback.Settle(true).code() == absl::StatusCode::kFailedPrecondition);
  const Floats nan = {1.0f, std::nanf("")};
  CHECK(node.feedback.Stage(nan, absl::MakeSpan(node.packed)).code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(!node.feedback.staged());
  const float max = std::numeric_limits<float>::max();
  node.Stage({max, 1.0f});
  CHECK(node.feedback.Stage(Floats{1.0f, 1.0f}, absl::MakeSpan(node.packed)).code() ==
        absl::StatusCode::kFailedPrecondition);
  REQUIRE(node.feedback.Settle(false).ok());
  // max + max overflows: refused, and the residual is as before.
  CHECK(node.feedback.Stage(Floats{max, 1.0f}, absl::MakeSpan(node.packed)).code() ==
        absl::StatusCode::kInvalidArgument);
  CHECK(node.Residual() == Floats{max, 1.0f});
  CHECK(!node.feedback.Stage(Floats{1.0f}, absl::MakeSpan(node.packed)).ok());
  CHECK(!node.feedback.Stage(Floats{1.0f, 1.0f}, absl::MakeSpan(node.packed).first(4)).ok());
}

TEST_CASE("a saved residual continues as if nothing had happened") {
  const Floats first = {127.0f, 0.3f, -0.7f}, second = {100.0f, 0.1f, 5.0f};
  Node one(3, "int8:64"), two(3, "int8:64");
  one.Stage(first);
  REQUIRE(one.feedback.Settle(true).ok());
  REQUIRE(two.feedback.Restore(0, one.feedback.residual()).ok());
  CHECK(one.Stage(second) == two.Stage(second));
  CHECK(one.packed == two.packed);
  REQUIRE(two.feedback.Restore(0, Floats{0.0f, 0.0f, 0.0f}).ok());
  CHECK(!two.feedback.staged());
  CHECK(!two.feedback.Restore(0, Floats(4)).ok());
  CHECK(!two.feedback.Restore(0, Floats{0.0f, 0.0f, std::nanf("")}).ok());
}

TEST_CASE("a residual comes back in pieces") {
  Node node(3, "fp32");
  REQUIRE(node.feedback.Restore(1, Floats{2.0f, 3.0f}).ok());
  REQUIRE(node.feedback.Restore(0, Floats{1.0f}).ok());
  CHECK(node.Residual() == Floats{1.0f, 2.0f, 3.0f});
  CHECK(!node.feedback.Restore(2, Floats{4.0f, 5.0f}).ok());
  CHECK(!node.feedback.Restore(~uint64_t{0}, Floats{4.0f}).ok());
  CHECK(node.Residual() == Floats{1.0f, 2.0f, 3.0f});
}

TEST_CASE("the residual outlives a change of codec and options") {
  Node node(2, "fp32");
  node.Stage({3.0f, 4.0f});
  const auto codec = *Codec::Create({CodecKind::kInt8, 64});
  CHECK(node.feedback.Use(codec.get(), {}).code() == absl::StatusCode::kFailedPrecondition);
  REQUIRE(node.feedback.Settle(false).ok());
  CHECK(node.feedback.Use(codec.get(), {.beta = 2.0f}).code() ==
        absl::StatusCode::kInvalidArgument);
  REQUIRE(node.feedback.Use(codec.get(), {.beta = 0.5f}).ok());
  std::vector<uint8_t> packed(codec->PackedSize(2));
  // 0.5 * (3, 4) + (125.5, 0.25) = (127, 2.25), of which int8 with a scale of 1 sends (127, 2).
  REQUIRE(node.feedback.Stage(Floats{125.5f, 0.25f}, absl::MakeSpan(packed)).ok());
  REQUIRE(node.feedback.Settle(true).ok());
  CHECK(node.Residual() == Floats{0.0f, 0.25f});
}

TEST_CASE("an error of the delta's source is given, and the residual stays") {
  Node node(2, "fp32");
  const auto broken = [](uint64_t, absl::Span<float>) { return absl::InternalError("no device"); };
  CHECK(node.feedback.Stage(broken, absl::MakeSpan(node.packed)).message() == "no device");
  CHECK(!node.feedback.staged());
  CHECK(node.Residual() == Floats{0.0f, 0.0f});
}

TEST_CASE("error feedback options out of range are refused") {
  const auto codec = *Codec::Create({});
  for (const ErrorFeedbackOptions& options :
       {ErrorFeedbackOptions{.beta = -0.1f}, ErrorFeedbackOptions{.beta = 1.1f},
        ErrorFeedbackOptions{.beta = std::nanf("")}, ErrorFeedbackOptions{.max_norm = -1.0},
        ErrorFeedbackOptions{.max_norm = std::nan("")}}) {
    CHECK(ErrorFeedback::Create(1, codec.get(), options).status().code() ==
          absl::StatusCode::kInvalidArgument);
  }
  CHECK(ErrorFeedback::Create(~uint64_t{0}, codec.get(), {}).status().code() ==
        absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace gdf::compress
