// A tiny model on the device against the same on the CPU: the losses of the first steps, which
// differ by the order of sums only, what both learn, and bf16.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <vector>

#include "gdfd/worker/feedback.h"
#include "gdfd/worker/gpu.h"
#include "tests/unit/worker/test_models.h"

namespace gdf::worker {
namespace {

// Opens the first device; without one, or without libtorch's CUDA part, the test is skipped.
void RequireGpu() {
  const train::DeviceList list = ListDevices(GDF_PLUGIN_FOLDER);
  if (list.devices.empty()) {
    std::cerr << "skipped: " << list.problem << std::endl;
    std::exit(77);
  }
  const GpuLibraries libraries = ValueOf(GpuLibraries::Load(GDF_PLUGIN_FOLDER));
  const std::vector<train::GpuDevice> open = ValueOf(libraries.Open(1));
  CHECK(open[0].name == list.devices[0].name);
}

// Heads as wide as the attention kernels ask for in bf16.
config::ModelShape Gpt2() {
  config::Gpt2Shape shape = TinyGpt2();
  shape.width = 32;
  shape.ffn_width = 64;
  return shape;
}
config::ModelShape Llama() {
  config::LlamaShape shape = TinyLlama();
  shape.head_width = 16;
  shape.width = 64;
  shape.ffn_width = 96;
  return shape;
}

const std::vector<int32_t>& Tokens() {
  static const auto* tokens = new std::vector<int32_t>(PatternTokens(2000));
  return *tokens;
}

std::unique_ptr<Trainer> Start(const config::ModelShape& shape, bool on_gpu, bool bf16,
                               bool recompute = false) {
  TrainerOptions options = TinyRun(shape, Tokens(), Tokens());
  options.model.on_gpu = on_gpu;
  options.model.bf16 = bf16;
  options.model.recompute = recompute;
  auto trainer = ValueOf(Trainer::Create(options));
  RequireOk(trainer->model().SetParameters(RandomParameters(shape)));
  return trainer;
}

std::vector<double> Losses(Trainer& trainer, int64_t steps) {
  std::vector<double> losses;
  const auto note = [&](const StepMetrics& metrics) {
    losses.push_back(metrics.loss);
    return true;
  };
  ValueOf(trainer.RunSteps(steps, note));
  return losses;
}

}  // namespace

TEST_CASE("on the device the first steps are those of the CPU") {
  RequireGpu();
  const config::ModelShape shape = GENERATE(Gpt2(), Llama());
  const bool recompute = GENERATE(false, true);
  const auto cpu = Start(shape, false, false);
  const auto gpu = Start(shape, true, false, recompute);
  const std::vector<double> expected = Losses(*cpu, 20);
  const std::vector<double> losses = Losses(*gpu, 20);
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO("step " << i);
    CHECK(losses[i] == Approx(expected[i]).epsilon(1e-3));
  }
  CHECK(RelativeDifference(ParametersOf(gpu->model()), ParametersOf(cpu->model())) < 1e-2);
}

TEST_CASE("on the device bf16 learns as float32 does on the CPU") {
  RequireGpu();
  const config::ModelShape shape = GENERATE(Gpt2(), Llama());
  const auto cpu = Start(shape, false, false);
  const auto gpu = Start(shape, true, true);
  const double before = ValueOf(gpu->Evaluate(0)).loss;
  CHECK(before == Approx(ValueOf(cpu->Evaluate(0)).loss).margin(0.02));
  Losses(*cpu, 200);
  Losses(*gpu, 200);
  const double after = ValueOf(gpu->Evaluate(0)).loss;
  CHECK(after < 0.5 * before);
  CHECK(after == Approx(ValueOf(cpu->Evaluate(0)).loss).margin(0.1));
}

TEST_CASE("two devices take the steps of one, with NCCL and without") {
  const size_t devices = ListDevices(GDF_PLUGIN_FOLDER).devices.size();
  if (devices < 2) {
    std::cerr << "skipped: needs two devices, there are " << devices << std::endl;
    std::exit(77);
  }
  const GpuLibraries libraries = ValueOf(GpuLibraries::Load(GDF_PLUGIN_FOLDER));
  ValueOf(libraries.Open(2));
  TrainerOptions options = TinyRun(Gpt2(), Tokens(), Tokens());
  options.model.on_gpu = true;
  const auto one = ValueOf(Trainer::Create(options));
  options.model.devices = 2;
  if (GENERATE(false, true)) options.group = std::make_shared<cuda::Group>(ValueOf(libraries.OpenGroup(2)));
  const auto two = ValueOf(Trainer::Create(options));
  for (Trainer* trainer : {one.get(), two.get()}) RequireOk(trainer->model().SetParameters(RandomParameters(Gpt2())));
  const std::vector<double> expected = Losses(*one, 20);
  const std::vector<double> losses = Losses(*two, 20);
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO("step " << i);
    CHECK(losses[i] == Approx(expected[i]).epsilon(1e-3));
  }
}

TEST_CASE("a delta packed on the device has the bytes of one packed on the CPU") {
  RequireGpu();
  const GpuLibraries libraries = ValueOf(GpuLibraries::Load(GDF_PLUGIN_FOLDER));
  const auto session = std::make_shared<cuda::Session>(ValueOf(libraries.OpenSession()));
  const auto trainer = Start(Gpt2(), true, false);
  const std::vector<float> theta = ParametersOf(trainer->model());
  const ParameterRange all{0, theta.size()};
  const auto host = MakeHostFeedback(trainer->model(), all), device = ValueOf(MakeDeviceFeedback(trainer->model(), all, session));
  for (const char* codec : {"fp32", "bf16", "int8", "int8:256:stochastic", "int4", "sign", "topk2:64", "dct:8"}) {
    CAPTURE(codec);
    Losses(*trainer, 3);
    std::vector<std::vector<uint8_t>> packed;
    std::vector<std::vector<float>> residuals;
    for (Feedback* each : {host.get(), device.get()}) {
      RequireOk(each->Use(ValueOf(compress::Codec::Create(*compress::CodecSpec::Parse(codec))), {0.95f, 0}));
      packed.emplace_back(each->codec().PackedSize(theta.size()));
      RequireOk(each->Stage(theta, absl::MakeSpan(packed.back()), 7));
      RequireOk(each->Settle(true));
      residuals.emplace_back(theta.size());
      RequireOk(each->Save(0, absl::MakeSpan(residuals.back())));
    }
    CHECK(packed[1] == packed[0]);
    CHECK(residuals[1] == residuals[0]);
  }
}

TEST_CASE("the inner state moves from the device to the CPU") {
  RequireGpu();
  const auto gpu = Start(Gpt2(), true, false);
  Losses(*gpu, 7);
  std::vector<uint8_t> state(gpu->state_bytes());
  RequireOk(gpu->SaveState(0, absl::MakeSpan(state)));
  const auto cpu = Start(Gpt2(), false, false);
  RequireOk(cpu->model().SetParameters(ParametersOf(gpu->model())));
  RequireOk(cpu->RestoreState(0, state));
  CHECK(cpu->step() == 7);
  CHECK(Losses(*cpu, 5).back() == Approx(Losses(*gpu, 5).back()).epsilon(1e-3));
}

TEST_CASE("on the device the same text is generated as on the CPU") {
  RequireGpu();
  const config::ModelShape shape = GENERATE(Gpt2(), Llama());
  const auto cpu = Start(shape, false, false);
  Losses(*cpu, 200);  // of what it has learnt it is sure
  const auto gpu = Start(shape, true, false);
  RequireOk(gpu->model().SetParameters(ParametersOf(cpu->model())));
  const std::vector<int32_t> prompt(Tokens().begin(), Tokens().begin() + 6);
  GenerateOptions options;
  options.max_new_tokens = 40;
  CHECK(ValueOf(gpu->model().Generate(prompt, options)) ==
        ValueOf(cpu->model().Generate(prompt, options)));
}

}  // namespace gdf::worker
