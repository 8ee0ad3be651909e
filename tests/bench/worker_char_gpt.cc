// The published nanoGPT CPU recipe (4 layers, width 128, block 64, batch 12, 2000 steps) on one
// worker in this process, through the same Trainer that gdf-worker runs. Prints JSON lines.
//
//   worker_char_gpt --text FILE [--threads N] [--steps N] [--seed N]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>

#include "CLI/CLI.hpp"
#include "core/data/dataset.h"
#include "core/data/sampler.h"
#include "core/data/tokenizer.h"
#include "gdfd/worker/model/decoder.h"
#include "gdfd/worker/params/parameters.h"
#include "gdfd/worker/trainer.h"

namespace {

using namespace gdf;

template <typename T>
T ValueOrDie(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "worker_char_gpt: %s\n", value.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(value);
}

void OkOrDie(const absl::Status& status) {
  ValueOrDie(status.ok() ? absl::StatusOr<int>(0) : absl::StatusOr<int>(status));
}

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

config::TrainSpec Recipe(int64_t steps, uint64_t seed) {
  config::TrainSpec train;
  train.steps = steps;
  train.batch_size = 12;
  train.optimizer = {.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1};
  train.schedule = {.kind = config::LrSchedule::kCosine, .warmup_steps = 100, .min_lr = 1e-4};
  train.clip_norm = 1.0;
  train.seed = seed;
  return train;
}

config::Gpt2Shape Shape(int64_t vocab) {
  config::Gpt2Shape shape;
  shape.layers = 4;
  shape.heads = 4;
  shape.width = 128;
  shape.ffn_width = 512;
  shape.context = 64;
  shape.vocab = vocab;
  shape.bias = false;
  shape.activation = config::Activation::kGelu;
  return shape;
}

// The mean loss over the windows that the reference's script draws for its validation: 100 batches
// of 12, by torch's generator with seed 7.
double LossOfReferenceBatches(worker::Trainer& trainer, absl::Span<const int32_t> valid) {
  constexpr int64_t kBatches = 100, kBatch = 12, kLength = 64;
  at::Generator generator = at::detail::createCPUGenerator(7);
  double sum = 0;
  for (int64_t b = 0; b < kBatches; ++b) {
    const at::Tensor drawn = at::randint(static_cast<int64_t>(valid.size()) - kLength - 1, {kBatch}, generator,
                                         at::TensorOptions(at::kLong));
    const at::Tensor inputs = at::empty({kBatch, kLength}, at::kLong), targets = at::empty_like(inputs);
    data::CopyWindows(valid, {drawn.data_ptr<int64_t>(), kBatch}, kLength,
                      {inputs.data_ptr<int64_t>(), kBatch * kLength}, {targets.data_ptr<int64_t>(), kBatch * kLength});
    sum += trainer.model().decoder().LossSum(inputs, targets).item<double>();
  }
  return sum / static_cast<double>(kBatches * kBatch * kLength);
}

}  // namespace

int main(int argc, char** argv) {
  std::string path;
  int threads = 2;
  int64_t steps = 2000;
  uint64_t seed = 1337;
  CLI::App app("The nanoGPT character recipe on one worker");
  app.add_option("--text", path, "text file")->required()->check(CLI::ExistingFile);
  app.add_option("--threads", threads, "CPU threads");
  app.add_option("--steps", steps, "optimiser steps");
  app.add_option("--seed", seed, "of parameters and data");
  CLI11_PARSE(app, argc, argv);

  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const data::SourceFile source{path, text};
  const auto tokenizer = ValueOrDie(data::MakeCharTokenizerFor({&source, 1}, {}));
  const auto corpus = ValueOrDie(
      data::TokenizedCorpus::Build({&source, 1}, *tokenizer, {.source = {}, .seq_len = 64}));

  worker::TrainerOptions options;
  options.model = {.shape = Shape(tokenizer->vocab_size()), .threads = threads};
  options.train = Recipe(steps, seed);
  options.sequence_length = 64;
  options.train_tokens = corpus.train();
  options.valid_tokens = corpus.valid();
  const auto trainer = ValueOrDie(worker::Trainer::Create(options));
  std::vector<float> parameters(trainer->model().num_params());
  OkOrDie(worker::InitParameters(options.model.shape, seed, absl::MakeSpan(parameters)));
  OkOrDie(trainer->model().SetParameters(parameters));

  // As in the reference, the time of the validations is in.
  const double started = Now();
  while (trainer->step() < steps) {
    const auto run = ValueOrDie(trainer->RunSteps(std::min<int64_t>(500, steps - trainer->step())));
    const auto quick = ValueOrDie(trainer->Evaluate(100));
    std::printf("{\"step\": %ld, \"train_loss\": %.4f, \"validation_loss\": %.4f, \"seconds\": %.2f}\n",
                static_cast<long>(trainer->step()), run.mean_loss, quick.loss, Now() - started);
    std::fflush(stdout);
  }
  const double seconds = Now() - started;
  const auto whole = ValueOrDie(trainer->Evaluate(0));
  std::printf("{\"whole_validation_loss\": %.4f, \"reference_batches_loss\": %.4f, \"seconds\": %.2f, \"threads\": %d}\n",
              whole.loss, LossOfReferenceBatches(*trainer, corpus.valid()), seconds, threads);
  return 0;
}
