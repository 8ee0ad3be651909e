#include "gdfd/worker/deltas.h"

#include <catch2/catch.hpp>
#include <vector>

#include "core/base/status_macros.h"
#include "core/tensor/flat_buffer.h"
#include "tests/unit/worker/fake_device.h"
#include "tests/unit/worker/test_models.h"

namespace gdf::worker {
namespace {

// Of two fragments: 8192 parameters and some more.
config::Gpt2Shape TwoFragments() {
  config::Gpt2Shape shape = TinyGpt2();
  shape.width = 32;
  shape.ffn_width = 64;
  return shape;
}

std::vector<float> Filled(uint64_t count, float value) { return std::vector<float>(count, value); }

struct Session {
  // `plugin`: packs on a device that is the host's memory; empty: without one.
  explicit Session(const std::string& plugin = "", uint64_t count = 2)
      : model(ValueOf(LanguageModel::Create({.shape = TwoFragments()}))),
        fragments(ValueOf(train::Fragments::Create(model->num_params(), count))),
        deltas(*model, fragments, plugin.empty() ? nullptr : Packer(plugin)) {}

  void Apply(uint64_t fragment, float value, double mixing = 0) {
    train::SharedSegment theta =
        ValueOf(train::SharedSegment::Create(fragments.size(fragment) * sizeof(float), train::SharedSegment::Peer::kReads));
    for (float& v : theta.floats()) v = value;
    RequireOk(deltas.Apply(fragment, std::move(theta), mixing));
  }
  // Local steps that leave every parameter at `value`.
  void Step(float value) {
    RequireOk(model->SetParameters(Filled(model->num_params(), value)));
    deltas.StepsTaken();
  }
  absl::Status Stage(uint64_t round, uint64_t fragment, std::string_view codec = "fp32") {
    train::EmitRequest emit;
    emit.round = RoundId{round};
    emit.fragment = fragment;
    emit.codec = *compress::CodecSpec::Parse(codec);
    emit.beta = 1;
    window.assign(model->num_params() * sizeof(float), 0);
    return deltas.Stage(emit, absl::MakeSpan(window), &norm);
  }
  std::vector<float> Unpacked(uint64_t fragment, std::string_view codec = "fp32") {
    const auto decoder = ValueOf(compress::Codec::Create(*compress::CodecSpec::Parse(codec)));
    std::vector<float> values(fragments.size(fragment));
    RequireOk(decoder->Decode(absl::MakeConstSpan(window).subspan(0, decoder->PackedSize(values.size())),
                              absl::MakeSpan(values)));
    return values;
  }
  std::vector<float> Residuals() const {
    std::vector<float> residuals(model->num_params());
    RequireOk(deltas.SaveResiduals(0, absl::MakeSpan(residuals)));
    return residuals;
  }
  std::vector<float> Local(uint64_t fragment) const {
    std::vector<float> values(fragments.size(fragment));
    RequireOk(model->CopyParameters(fragments.begin(fragment), absl::MakeSpan(values)));
    return values;
  }

  std::unique_ptr<LanguageModel> model;
  train::Fragments fragments;
  Deltas deltas;
  std::vector<uint8_t> window;
  double norm = 0;
};

}  // namespace

TEST_CASE("a fragment's delta is taken from its own theta, and the other fragments stay as they are") {
  Session s(GENERATE(as<std::string>(), "", "good", "full", "crowded"));
  CHECK_FALSE(s.deltas.complete());
  s.Apply(0, 1);
  CHECK_FALSE(s.deltas.complete());
  s.Apply(1, 2);
  CHECK(s.deltas.complete());
  s.Step(-3);
  RequireOk(s.Stage(0, 0));
  CHECK(s.Unpacked(0) == Filled(s.fragments.size(0), 4));
  CHECK(s.norm == Approx(4 * std::sqrt(double(s.fragments.size(0)))));
  RequireOk(s.deltas.Settle(RoundId{0}, train::Settlement::kApplied));
  s.Step(-5);  // during the exchange
  s.Apply(0, -7, 0.5);
  CHECK(s.Local(0) == Filled(s.fragments.size(0), -6));  // (-7 - 5) / 2
  CHECK(s.Local(1) == Filled(s.fragments.size(1), -5));
  RequireOk(s.Stage(1, 1));
  CHECK(s.Unpacked(1) == Filled(s.fragments.size(1), 7));
}

TEST_CASE("what a codec loses of a fragment is added to that fragment's next delta alone") {
  Session s(GENERATE(as<std::string>(), "", "good", "full", "crowded"));
  s.Apply(0, 0);
  s.Apply(1, 0);
  s.Step(-1);
  RequireOk(s.Stage(0, 0, "topk2:64"));
  RequireOk(s.deltas.Settle(RoundId{0}, train::Settlement::kKept));
  const std::vector<float> kept = s.Residuals();
  for (uint64_t i = 0; i < kept.size(); ++i) {
    if (kept[i] != (i < s.fragments.size(0) ? 1.0f : 0.0f)) FAIL("element " << i << " is " << kept[i]);
  }
  RequireOk(s.Stage(1, 1));
  CHECK(s.Unpacked(1) == Filled(s.fragments.size(1), 1));
  RequireOk(s.deltas.Settle(RoundId{1}, train::Settlement::kApplied));
  s.Apply(0, 0);
  s.Step(-1);
  RequireOk(s.Stage(2, 0));
  CHECK(s.Unpacked(0) == Filled(s.fragments.size(0), 2));
}

TEST_CASE("a delta that is given up comes with none of the later ones, nor does what it carried") {
  Session s;
  s.Apply(0, 0);
  s.Apply(1, 0);
  s.Step(-1);
  RequireOk(s.Stage(0, 0, "topk2:64"));
  RequireOk(s.deltas.Settle(RoundId{0}, train::Settlement::kApplied));
  s.Apply(0, 0);
  s.Step(-1000);
  RequireOk(s.Stage(1, 0, "topk2:64"));
  RequireOk(s.deltas.Settle(RoundId{1}, train::Settlement::kGivenUp));
  for (const float value : s.Residuals()) CHECK(value == 0);
  s.Apply(0, 0);
  s.Step(-1);
  RequireOk(s.Stage(2, 0));
  CHECK(s.Unpacked(0) == Filled(s.fragments.size(0), 1));
}

TEST_CASE("residuals are saved as one buffer, and put back in pieces that cross fragments") {
  Session s(GENERATE(as<std::string>(), "", "good", "full", "crowded"));
  s.Apply(0, 0);
  s.Apply(1, 0);
  s.Step(-1);
  RequireOk(s.Stage(0, 1));
  RequireOk(s.deltas.Settle(RoundId{0}, train::Settlement::kKept));
  const std::vector<float> saved = s.Residuals();
  Session other(GENERATE(as<std::string>(), "", "good"));
  const uint64_t begin = other.fragments.begin(1);
  const config::RoundsSpec rounds;
  for (const auto& [first, end] : {std::pair{uint64_t{0}, begin - 3}, std::pair{begin - 3, begin + 5},
                                   std::pair{begin + 5, saved.size()}}) {
    RequireOk(other.deltas.RestoreResiduals(first, absl::MakeConstSpan(saved).subspan(first, end - first), rounds));
  }
  CHECK(other.Residuals() == saved);
  std::vector<float> piece(8);
  RequireOk(other.deltas.SaveResiduals(begin - 3, absl::MakeSpan(piece)));
  CHECK(piece == std::vector<float>{0, 0, 0, 1, 1, 1, 1, 1});
  other.deltas.ForgetResiduals();
  CHECK(other.Residuals() == Filled(saved.size(), 0));
  const std::vector<float> damaged = {std::nanf("")};
  CHECK(absl::IsInvalidArgument(other.deltas.RestoreResiduals(0, damaged, rounds)));
}

TEST_CASE("work at theta sees what was applied, and leaves what was there") {
  Session s;
  s.Apply(0, 1);
  s.Apply(1, 2);
  s.Step(-3);
  RequireOk(s.Stage(0, 0));  // of which theta is kept no longer
  RequireOk(s.deltas.AtTheta([&] {
    CHECK(s.Local(0) == Filled(s.fragments.size(0), -3));
    CHECK(s.Local(1) == Filled(s.fragments.size(1), 2));
    return absl::OkStatus();
  }));
  s.Apply(0, 1, 0.25);
  const absl::Status failed = s.deltas.AtTheta([&] {
    CHECK(s.Local(0) == Filled(s.fragments.size(0), 1));
    return absl::DataLossError("the loss is not finite");
  });
  CHECK(absl::IsDataLoss(failed));
  CHECK(s.Local(0) == Filled(s.fragments.size(0), 0));  // (3 * 1 - 3) / 4
  CHECK(s.Local(1) == Filled(s.fragments.size(1), -3));
}

// What core/compress makes of the same delta is what comes packed, pass by pass, and what is left in the residual.
TEST_CASE("a delta goes as factors in two passes, of which the second may be asked for again") {
  constexpr uint32_t kRank = 3;
  Session s("", 1);
  const auto low_rank = ValueOf(compress::LowRank::Create(s.model->layout(), kRank));
  REQUIRE(low_rank.num_left() > 0);
  std::vector<float> right(low_rank.num_right()), left(low_rank.num_left()), second(low_rank.num_second());
  low_rank.FirstRight(7, absl::MakeSpan(right));
  auto expected = ValueOf(compress::LowRankFeedback::Create(low_rank, {}));
  std::vector<float> delta = s.Local(0);  // θ is 0
  for (float& value : delta) value = -value;
  const auto source = [&](uint64_t first, absl::Span<float> out) {
    std::copy_n(delta.data() + first, out.size(), out.data());
    return absl::OkStatus();
  };
  RequireOk(expected.Stage(source, right, absl::MakeSpan(left)));

  // Mixing 1 leaves the local parameters.
  s.Apply(0, 0, 1);
  train::EmitRequest emit;
  emit.round = RoundId{4};
  emit.codec = {config::CodecKind::kFp32};
  emit.beta = 1;
  emit.factors = {kRank, true, {}, 9};
  const auto ask = [&](const std::vector<float>& given, bool is_second) {
    emit.factors->second = is_second;
    std::vector<float> window(s.model->num_params());
    std::copy(given.begin(), given.end(), window.begin());
    const auto bytes = tensor::AsMutableBytes(absl::MakeSpan(window));
    const absl::Status status = s.deltas.Stage(emit, bytes, &s.norm);
    window.resize(is_second ? second.size() : left.size());
    return std::pair(status, window);
  };
  CHECK(absl::IsFailedPrecondition(ask(left, true).first));  // nothing waits for it
  const auto first = ask(right, false);
  RequireOk(first.first);
  CHECK(first.second == left);
  CHECK(s.norm == Approx(expected.last_norm()));
  CHECK(absl::IsFailedPrecondition(ask(right, false).first));
  RequireOk(ask(std::vector<float>(left.size(), 1), true).first);
  RequireOk(expected.Project(left, 9, absl::MakeSpan(second)));
  const auto projected = ask(left, true);
  RequireOk(projected.first);
  CHECK(projected.second == second);
  CHECK(absl::IsFailedPrecondition(ask({std::nanf("")}, true).first));
  RequireOk(ask(left, true).first);
  RequireOk(s.deltas.Settle(RoundId{4}, train::Settlement::kApplied));
  RequireOk(expected.Settle(true));
  CHECK(absl::MakeConstSpan(s.Residuals()) == expected.residual());

  Session other("", 1);
  config::RoundsSpec rounds;
  rounds.rank = kRank;
  RequireOk(other.deltas.RestoreResiduals(0, s.Residuals(), rounds));
  CHECK(other.Residuals() == s.Residuals());
  other.deltas.ForgetResiduals();
  CHECK(other.Residuals() == Filled(other.model->num_params(), 0));

  Session fragmented;
  fragmented.Apply(0, 0);
  emit.factors->second = false;
  fragmented.window.assign(fragmented.model->num_params() * sizeof(float), 0);
  CHECK(absl::IsInvalidArgument(fragmented.deltas.Stage(emit, absl::MakeSpan(fragmented.window), &fragmented.norm)));
}

TEST_CASE("a delta out of turn, not finite or of no fragment is refused") {
  Session s(GENERATE(as<std::string>(), "", "good"));
  const auto says = [](const absl::Status& status, const std::string& text) {
    INFO(status);
    return std::string(status.message()).find(text) != std::string::npos;
  };
  CHECK(says(s.Stage(3, 1), "the parameters of fragment 1 were not applied for round 3"));
  CHECK(absl::IsInvalidArgument(s.Stage(3, 2)));
  CHECK(says(s.deltas.Settle(RoundId{3}, train::Settlement::kApplied), "no delta of round 3 waits"));
  s.Apply(0, 1);
  s.Apply(1, 1);
  RequireOk(s.Stage(4, 0));
  CHECK(says(s.Stage(5, 1), "the delta of round 4 is not settled"));
  CHECK(says(s.deltas.Settle(RoundId{5}, train::Settlement::kApplied), "no delta of round 5 waits"));
  RequireOk(s.deltas.Settle(RoundId{4}, train::Settlement::kApplied));
  s.Step(std::numeric_limits<float>::infinity());
  CHECK(absl::IsFailedPrecondition(s.Stage(5, 1)));
  CHECK(absl::IsInvalidArgument(s.deltas.Apply(
      2, ValueOf(train::SharedSegment::Create(4, train::SharedSegment::Peer::kReads)), 0)));
}

}  // namespace gdf::worker
