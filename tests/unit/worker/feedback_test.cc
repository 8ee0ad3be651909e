// What packs on a device, which here is the host's memory, against what packs on the host, and when it gives up.
#include "gdfd/worker/feedback.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "tests/unit/worker/fake_device.h"
#include "tests/unit/worker/test_models.h"

namespace gdf::worker {
namespace {

// Pieces that end within the range, and no last one that is whole.
constexpr uint64_t kPiece = uint64_t{1} << 16;

struct Pair {
  explicit Pair(const std::string& codec, compress::ErrorFeedbackOptions options = {})
      : model(ValueOf(LanguageModel::Create({.shape = Shape()}))),
        range{100, 2 * kPiece + 1234},
        host(MakeHostFeedback(*model, range)),
        device(ValueOf(MakeDeviceFeedback(*model, range, Packer("good"), kPiece))) {
    Use(codec, options);
  }

  static config::Gpt2Shape Shape() {
    config::Gpt2Shape shape = TinyGpt2();
    shape.layers = 4;
    shape.width = 64;
    shape.ffn_width = 256;
    return shape;
  }

  void Use(const std::string& codec, compress::ErrorFeedbackOptions options) {
    for (Feedback* each : {host.get(), device.get()}) {
      RequireOk(each->Use(ValueOf(compress::Codec::Create(*compress::CodecSpec::Parse(codec))), options));
    }
    packed_bytes = host->codec().PackedSize(range.count);
  }
  std::vector<uint8_t> Stage(Feedback& feedback, absl::Span<const float> theta) {
    std::vector<uint8_t> packed(packed_bytes);
    RequireOk(feedback.Stage(theta, absl::MakeSpan(packed), 77));
    return packed;
  }
  std::vector<float> Residual(const Feedback& feedback) const {
    std::vector<float> residual(range.count);
    RequireOk(feedback.Save(0, absl::MakeSpan(residual)));
    return residual;
  }
  void Step(uint64_t seed) { RequireOk(model->SetParameters(RandomParameters(Shape(), seed))); }
  std::vector<float> Theta(uint64_t seed) const {
    const std::vector<float> all = RandomParameters(Shape(), seed);
    return {all.begin() + static_cast<ptrdiff_t>(range.first), all.begin() + static_cast<ptrdiff_t>(range.first + range.count)};
  }

  std::unique_ptr<LanguageModel> model;
  ParameterRange range;
  std::unique_ptr<Feedback> host;
  std::unique_ptr<Feedback> device;
  uint64_t packed_bytes = 0;
};

}  // namespace

TEST_CASE("a delta packed on the device has the bytes of one packed on the host, and leaves the same residual") {
  const std::string codec = GENERATE(as<std::string>(), "fp32", "bf16", "fp16", "int8", "int8:256:stochastic", "int4",
                                     "fp4", "sign", "topk2:64", "topk8:32", "dct:8");
  CAPTURE(codec);
  Pair pair(codec, {0.9f, 0});
  for (uint64_t round = 0; round < 4; ++round) {
    CAPTURE(round);
    pair.Step(100 + round);
    const std::vector<float> theta = pair.Theta(round);
    CHECK(pair.Stage(*pair.device, theta) == pair.Stage(*pair.host, theta));
    CHECK(pair.device->last_norm() == Approx(pair.host->last_norm()).epsilon(1e-12));
    for (Feedback* each : {pair.host.get(), pair.device.get()}) RequireOk(each->Settle(round != 1));
    CHECK(pair.Residual(*pair.device) == pair.Residual(*pair.host));
  }
}

TEST_CASE("a delta that is clipped on the device has the norm that is allowed") {
  Pair pair("fp32", {1.0f, 0.5});
  pair.Step(3);
  const std::vector<float> theta = pair.Theta(4);
  const std::vector<uint8_t> packed = pair.Stage(*pair.device, theta);
  std::vector<float> values(pair.range.count);
  RequireOk(pair.device->codec().Decode(packed, absl::MakeSpan(values)));
  double squares = 0;
  for (const float value : values) squares += double{value} * value;
  CHECK(std::sqrt(squares) == Approx(0.5));
  CHECK(pair.device->last_norm() > 0.5);
  pair.Stage(*pair.host, theta);
  for (Feedback* each : {pair.host.get(), pair.device.get()}) RequireOk(each->Settle(true));
  CHECK(pair.Residual(*pair.device) == std::vector<float>(pair.range.count, 0));
  CHECK(pair.Residual(*pair.device) == pair.Residual(*pair.host));
}

TEST_CASE("on the device too a delta that is not finite leaves the residual as it was") {
  Pair pair("int8");
  pair.Step(1);
  pair.Stage(*pair.device, pair.Theta(2));
  CHECK(absl::IsFailedPrecondition(pair.device->Use(nullptr, {})));
  std::vector<uint8_t> packed(pair.packed_bytes);
  CHECK(absl::IsFailedPrecondition(pair.device->Stage(pair.Theta(2), absl::MakeSpan(packed), 0)));
  RequireOk(pair.device->Settle(false));
  CHECK(absl::IsFailedPrecondition(pair.device->Settle(true)));
  const std::vector<float> before = pair.Residual(*pair.device);
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    std::vector<float> theta = pair.Theta(2);
    theta[kPiece + 7] = bad;
    CHECK(absl::IsInvalidArgument(pair.device->Stage(theta, absl::MakeSpan(packed), 0)));
    CHECK(absl::IsInvalidArgument(pair.device->Restore(0, absl::MakeConstSpan(theta))));
  }
  CHECK(absl::IsInvalidArgument(pair.device->Restore(1, before)));
  CHECK(pair.Residual(*pair.device) == before);
  CHECK(absl::IsInvalidArgument(pair.device->Use(ValueOf(compress::Codec::Create({config::CodecKind::kFp32})), {2.0f, 0})));
}

}  // namespace gdf::worker
