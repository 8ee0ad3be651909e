// Several devices, which here are all the CPU, against one with the same batches: the sums differ in their order only.
#include "gdfd/worker/replicas.h"

#include <catch2/catch.hpp>
#include <memory>
#include <vector>

#include "tests/unit/worker/test_models.h"

namespace gdf::worker {
namespace {

using Catch::Matchers::Contains;

const std::vector<int32_t>& Tokens() {
  static const auto* tokens = new std::vector<int32_t>(PatternTokens(2000));
  return *tokens;
}

// Two devices with a group, of a plugin whose devices are the host; any number without.
struct Devices {
  int count = 1;
  bool group = false;
};

std::unique_ptr<Trainer> Start(TrainerOptions options, const Devices& devices) {
  options.model.devices = devices.count;
  if (devices.group) {
    const cuda::Plugin plugin = ValueOf(cuda::Plugin::Load(GDF_FAKE_FOLDER "/fake_good.so"));
    options.group = std::make_shared<cuda::Group>(ValueOf(plugin.OpenGroup(2)));
  }
  auto trainer = ValueOf(Trainer::Create(options));
  RequireOk(trainer->model().SetParameters(RandomParameters(options.model.shape)));
  return trainer;
}

// A batch of 5 does not go into equal parts; the validation's last batch has fewer sequences than there are devices.
TrainerOptions Options() {
  TrainerOptions options = TinyRun(GENERATE(0, 1) == 0 ? config::ModelShape(TinyGpt2()) : config::ModelShape(TinyLlama()),
                                   Tokens(), Tokens());
  options.train.batch_size = 5;
  options.train.gradient_accumulation = 2;
  return options;
}

void CheckAlike(Trainer& trainer, Trainer& expected) {
  CHECK(RelativeDifference(ParametersOf(trainer.model()), ParametersOf(expected.model())) < 1e-5);
  const EvalResult validated = ValueOf(trainer.Evaluate(0)), as = ValueOf(expected.Evaluate(0));
  CHECK(validated.tokens == as.tokens);
  CHECK(validated.loss == Approx(as.loss).epsilon(1e-5));
}

}  // namespace

TEST_CASE("several devices take the steps of one") {
  const TrainerOptions options = Options();
  const Devices devices = GENERATE(Devices{2}, Devices{3}, Devices{5}, Devices{2, true});
  const auto one = Start(options, {});
  const auto several = Start(options, devices);
  for (int part = 0; part < 2; ++part) {
    const RunResult expected = ValueOf(one->RunSteps(10)), result = ValueOf(several->RunSteps(10));
    CHECK(result.tokens == expected.tokens);
    CHECK(result.mean_loss == Approx(expected.mean_loss).epsilon(1e-5));
    CheckAlike(*several, *one);
    // As a round that ends: all devices go on from what is given.
    const std::vector<float> given = RandomParameters(options.model.shape, 7);
    for (Trainer* trainer : {one.get(), several.get()}) RequireOk(trainer->model().MixParameters(0, given, 0.5));
    CheckAlike(*several, *one);
  }
}

TEST_CASE("with several devices equal runs give equal bits, and a saved one goes on as it was") {
  const TrainerOptions options = Options();
  const auto a = Start(options, {3}), b = Start(options, {3});
  ValueOf(a->RunSteps(7));
  std::vector<uint8_t> state(a->state_bytes());
  RequireOk(a->SaveState(0, absl::MakeSpan(state)));
  RequireOk(b->model().SetParameters(ParametersOf(a->model())));
  RequireOk(b->RestoreState(0, state));
  CHECK(ValueOf(a->RunSteps(5)).last_loss == ValueOf(b->RunSteps(5)).last_loss);
  CHECK(ParametersOf(a->model()) == ParametersOf(b->model()));
}

TEST_CASE("bf16 weights of every device are those of its parameters") {
  TrainerOptions options = Options();
  options.model.bf16 = true;
  const auto one = Start(options, {}), several = Start(options, {2});
  ValueOf(one->RunSteps(5));
  ValueOf(several->RunSteps(5));
  CHECK(ValueOf(several->Evaluate(0)).loss == Approx(ValueOf(one->Evaluate(0)).loss).epsilon(0.02));
}

TEST_CASE("a batch smaller than the number of devices is refused") {
  TrainerOptions options = Options();
  options.model.devices = 6;
  const absl::Status status = Trainer::Create(options).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(status.message()), Contains("a batch of 5") && Contains("6 devices"));
}

}  // namespace gdf::worker
