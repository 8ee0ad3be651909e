#include "gdfd/worker/trainer.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <vector>

#include "tests/unit/worker/test_models.h"

namespace gdf::worker {
namespace {

using Catch::Matchers::Contains;

config::ModelShape Shape() { return GENERATE(0, 1) == 0 ? config::ModelShape(TinyGpt2()) : config::ModelShape(TinyLlama()); }

std::unique_ptr<Trainer> Start(const TrainerOptions& options) {
  auto trainer = ValueOf(Trainer::Create(options));
  RequireOk(trainer->model().SetParameters(RandomParameters(options.model.shape)));
  return trainer;
}

std::vector<uint8_t> StateOf(const Trainer& trainer) {
  std::vector<uint8_t> state(trainer.state_bytes());
  RequireOk(trainer.SaveState(0, absl::MakeSpan(state)));
  return state;
}

const std::vector<int32_t>& Train() {
  static const auto* tokens = new std::vector<int32_t>(PatternTokens(2000));
  return *tokens;
}
const std::vector<int32_t>& Valid() {
  static const auto* tokens = new std::vector<int32_t>(PatternTokens(100));
  return *tokens;
}

}  // namespace

TEST_CASE("training learns") {
  const auto trainer = Start(TinyRun(Shape(), Train(), Valid()));
  const double before = ValueOf(trainer->Evaluate(0)).loss;
  CHECK(before == Approx(std::log(11)).epsilon(0.05));
  const RunResult run = ValueOf(trainer->RunSteps(200));
  CHECK(run.tokens == 200 * 4 * 8);
  CHECK(trainer->step() == 200);
  CHECK(ValueOf(trainer->Evaluate(0)).loss < 0.5 * before);
}

TEST_CASE("the cursor of a later step is the one that is there after it") {
  TrainerOptions options = TinyRun(TinyGpt2(), Train(), Valid());
  options.train.gradient_accumulation = 3;
  options.num_members = 2;
  const auto trainer = Start(options);
  ValueOf(trainer->RunSteps(100));
  const data::Cursor later = trainer->CursorAfter(170);  // in the next epoch: 2 * 12 windows a step of 1992
  CHECK(trainer->CursorAfter(100) == trainer->cursor());
  ValueOf(trainer->RunSteps(70));
  CHECK(trainer->cursor() == later);
  CHECK(later.epoch > 0);
}

// bfloat16 rounds the products only; parameters, moments and sums stay float32.
TEST_CASE("bf16 training learns as float32 does") {
  TrainerOptions options = TinyRun(Shape(), Train(), Valid());
  const auto full = Start(options);
  options.model.bf16 = true;
  options.model.recompute = true;
  const auto half = Start(options);
  ValueOf(full->RunSteps(200));
  ValueOf(half->RunSteps(200));
  CHECK(ValueOf(half->Evaluate(0)).loss == Approx(ValueOf(full->Evaluate(0)).loss).margin(0.1));
}

TEST_CASE("equal runs give equal bits") {
  TrainerOptions options = TinyRun(Shape(), Train(), Valid());
  options.model.threads = 2;
  const auto a = Start(options);
  const auto b = Start(options);
  CHECK(ValueOf(a->RunSteps(20)).mean_loss == ValueOf(b->RunSteps(20)).mean_loss);
  CHECK(ParametersOf(a->model()) == ParametersOf(b->model()));
}

TEST_CASE("a restored trainer goes on bit for bit") {
  TrainerOptions options = TinyRun(Shape(), Train(), Valid());
  options.train.optimizer.kind = GENERATE(config::InnerOptimizer::kAdamW, config::InnerOptimizer::kSgd);
  options.train.optimizer.momentum = 0.9;
  const auto whole = Start(options);
  ValueOf(whole->RunSteps(7));
  const std::vector<uint8_t> state = StateOf(*whole);
  const std::vector<float> parameters = ParametersOf(whole->model());
  ValueOf(whole->RunSteps(9));

  const auto resumed = Start(options);
  RequireOk(resumed->model().SetParameters(parameters));
  RequireOk(resumed->RestoreState(0, state));
  CHECK(resumed->step() == 7);
  ValueOf(resumed->RunSteps(9));
  CHECK(ParametersOf(resumed->model()) == ParametersOf(whole->model()));
  CHECK(StateOf(*resumed) == StateOf(*whole));
}

TEST_CASE("a state is the same in pieces of any size") {
  const TrainerOptions options = TinyRun(TinyGpt2(), Train(), Valid());
  const auto trainer = Start(options);
  ValueOf(trainer->RunSteps(3));
  const std::vector<uint8_t> whole = StateOf(*trainer);
  for (const size_t size : {size_t{64}, size_t{100}, size_t{4096}}) {
    std::vector<uint8_t> saved(whole.size());
    const auto resumed = Start(options);
    for (size_t at = 0; at < whole.size(); at += size) {
      RequireOk(trainer->SaveState(at, absl::MakeSpan(saved).subspan(at, size)));
      RequireOk(resumed->RestoreState(at, absl::MakeConstSpan(whole).subspan(at, size)));
    }
    CHECK(saved == whole);
    CHECK(StateOf(*resumed) == whole);
  }
}

TEST_CASE("a state of something else leaves the inner state as created") {
  const TrainerOptions options = TinyRun(TinyGpt2(), Train(), Valid());
  const auto trainer = Start(options);
  const std::vector<uint8_t> created = StateOf(*trainer);
  ValueOf(trainer->RunSteps(3));
  const std::vector<uint8_t> good = StateOf(*trainer);
  CHECK(good != created);
  std::vector<uint8_t> bad = good;
  bad[0] = 'X';
  CHECK(trainer->RestoreState(0, bad).code() == absl::StatusCode::kInvalidArgument);
  CHECK(StateOf(*trainer) == created);
  bad = good;
  bad[31] = 0x7f;  // a cursor far outside the epoch
  CHECK(trainer->RestoreState(0, bad).code() == absl::StatusCode::kInvalidArgument);
  CHECK(StateOf(*trainer) == created);
  bad = good;
  std::fill(bad.end() - 4, bad.end(), uint8_t{0xff});  // a NaN at the end of the last moment
  CHECK(trainer->RestoreState(0, bad).code() == absl::StatusCode::kInvalidArgument);
  CHECK(StateOf(*trainer) == created);
}

// A rate at which plain SGD descends smoothly on these models. At 0.1 the loss jumps, and each jump
// multiplies the rounding differences between two equal runs (measured: 4e-8 after the first step of
// both, 1e-2 after a hundred at 0.1, 5e-7 at this rate).
constexpr double kSmoothRate = 0.03;

config::OptimizerSpec SmoothSgd() {
  config::OptimizerSpec spec;
  spec.kind = config::InnerOptimizer::kSgd;
  spec.lr = kSmoothRate;
  return spec;
}

// H = 1: the mean of N members' SGD steps is the step of one with N times the batch.
TEST_CASE("averaged SGD members equal one with the whole batch") {
  constexpr int kMembers = 4;
  TrainerOptions options = TinyRun(Shape(), Train(), Valid());
  options.train.optimizer = SmoothSgd();
  options.train.clip_norm = 0;
  TrainerOptions one = options;
  one.train.batch_size = kMembers * options.train.batch_size;
  const auto single = Start(one);
  options.num_members = kMembers;
  std::vector<std::unique_ptr<Trainer>> members;
  for (int i = 0; i < kMembers; ++i) {
    options.member_index = i;
    members.push_back(Start(options));
  }
  for (int step = 0; step < 100; ++step) {
    std::vector<float> mean(single->model().num_params());
    for (const auto& member : members) {
      ValueOf(member->RunSteps(1));
      const std::vector<float> theta = ParametersOf(member->model());
      for (size_t i = 0; i < mean.size(); ++i) mean[i] += theta[i] / kMembers;
    }
    for (const auto& member : members) RequireOk(member->model().SetParameters(mean));
  }
  ValueOf(single->RunSteps(100));
  CHECK(RelativeDifference(ParametersOf(members[0]->model()), ParametersOf(single->model())) <= 1e-5);
}

TEST_CASE("accumulated passes equal one large batch") {
  TrainerOptions options = TinyRun(Shape(), Train(), Valid());
  options.train.optimizer = SmoothSgd();
  const auto large = Start(options);
  options.train.batch_size = 2;
  options.train.gradient_accumulation = 2;
  const auto accumulated = Start(options);
  ValueOf(large->RunSteps(20));
  ValueOf(accumulated->RunSteps(20));
  CHECK(RelativeDifference(ParametersOf(accumulated->model()), ParametersOf(large->model())) < 1e-5);
}

TEST_CASE("clipping bounds the step") {
  TrainerOptions options = TinyRun(Shape(), Train(), Valid());
  options.train.optimizer = {};
  options.train.optimizer.kind = config::InnerOptimizer::kSgd;
  options.train.optimizer.lr = 1;
  options.train.clip_norm = 0.01;
  const auto trainer = Start(options);
  const std::vector<float> before = ParametersOf(trainer->model());
  StepMetrics metrics;
  ValueOf(trainer->RunSteps(5, [&](const StepMetrics& m) {
    metrics = m;
    return false;
  }));
  CHECK(trainer->step() == 1);
  CHECK(metrics.grad_norm > 0.01);
  const std::vector<float> after = ParametersOf(trainer->model());
  double moved = 0;
  for (size_t i = 0; i < before.size(); ++i) moved += (double{after[i]} - before[i]) * (double{after[i]} - before[i]);
  CHECK(std::sqrt(moved) == Approx(0.01).epsilon(1e-3));
}

TEST_CASE("validation counts every target once, or the batches asked for") {
  const auto trainer = Start(TinyRun(Shape(), Train(), Valid()));
  CHECK(ValueOf(trainer->Evaluate(0)).tokens == 99);  // all but the first of 100
  CHECK(ValueOf(trainer->Evaluate(2)).tokens == 2 * 4 * 8);
  const std::vector<int32_t> none;
  const auto without = Start(TinyRun(Shape(), Train(), none));
  CHECK(without->Evaluate(0).status().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("diverging training is said, and changes nothing") {
  TrainerOptions options = TinyRun(Shape(), Train(), Valid());
  const auto trainer = Start(options);
  std::vector<float> theta = ParametersOf(trainer->model());
  std::fill(theta.begin(), theta.end(), std::nanf(""));
  RequireOk(trainer->model().SetParameters(theta));
  const std::vector<uint8_t> before = StateOf(*trainer);
  const auto run = trainer->RunSteps(1);
  CHECK(run.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(run.status().message()), Contains("diverged at step 0"));
  const auto validation = trainer->Evaluate(0);
  CHECK(validation.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(validation.status().message()), Contains("the validation loss is nan"));
  CHECK(StateOf(*trainer) == before);
}

TEST_CASE("impossible options are refused") {
  const auto code = [](const TrainerOptions& options) { return Trainer::Create(options).status().code(); };
  TrainerOptions options = TinyRun(Shape(), Train(), Valid());
  options.sequence_length = 17;
  CHECK(code(options) == absl::StatusCode::kInvalidArgument);
  const std::vector<int32_t> outside = {1, 2, 11, 4, 5, 6, 7, 8, 9, 1, 1, 1};
  CHECK(code(TinyRun(Shape(), outside, Valid())) == absl::StatusCode::kInvalidArgument);
  const std::vector<int32_t> few = {1, 2, 3};
  CHECK(code(TinyRun(Shape(), few, Valid())) == absl::StatusCode::kInvalidArgument);
  options = TinyRun(Shape(), Train(), Valid());
  options.member_index = 1;
  CHECK(code(options) == absl::StatusCode::kInvalidArgument);
}

}  // namespace gdf::worker
