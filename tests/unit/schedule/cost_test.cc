// Every figure below is arithmetic by hand from docs/job-spec.md ("What a job costs").
#include "core/schedule/cost.h"

#include <catch2/catch.hpp>

#include "core/schedule/speed.h"

namespace gdf::schedule {
namespace {

using config::CodecKind;
using config::Gpt2Shape;
using config::JobSpec;
using config::LlamaShape;

// The character GPT: 804,096 parameters with 65 characters.
constexpr uint64_t kParams = 804'096;
constexpr uint64_t kMiB = uint64_t{1} << 20;

Gpt2Shape Shape() {
  return {.layers = 4,
          .heads = 4,
          .width = 128,
          .ffn_width = 512,
          .context = 64,
          .vocab = 65,
          .bias = false};
}

JobSpec Spec() {
  JobSpec spec;
  spec.model.shape = Shape();
  spec.data.sequence_length = 64;
  spec.data.tokenizer = config::TokenizerKind::kChar;
  spec.train.steps = 2000;
  spec.train.batch_size = 12;
  spec.train.optimizer.lr = 1e-3;
  spec.rounds.inner_steps = 50;
  spec.nodes.min = spec.nodes.max = 4;
  return spec;
}

CostInput Input(const JobSpec* spec, int64_t nodes) {
  CostInput in;
  in.spec = spec;
  in.shape = Shape();
  in.dataset_bytes = 1'000'000;
  in.num_nodes = nodes;
  return in;
}

uint64_t Item(const CostSum& sum, const std::string& name) {
  for (const CostItem& item : sum.items) {
    if (item.name == name) return item.bytes;
  }
  return 0;
}

TEST_CASE("bytes on the wire of reduce-scatter and all-gather") {
  JobSpec spec = Spec();
  spec.rounds.codecs = {{CodecKind::kFp32, 0}};
  CHECK(EstimateCost(Input(&spec, 1)).upload_bytes_per_round == 0);
  CHECK(EstimateCost(Input(&spec, 2)).upload_bytes_per_round == 4 * kParams);
  CHECK(EstimateCost(Input(&spec, 4)).upload_bytes_per_round == 6 * kParams);  // 2 * 3/4 * 4P
  spec.rounds.codecs = {{CodecKind::kBf16, 0}};
  CHECK(EstimateCost(Input(&spec, 4)).download_bytes_per_round == 3 * kParams);
  spec.rounds.codecs = {{CodecKind::kInt8, 256}};
  // P + 4 * 3141 scales = 816,660 packed; * 3/2
  CHECK(EstimateCost(Input(&spec, 4)).upload_bytes_per_round == 1'224'990);
  // 196 chunks of 84 bytes and one of 1280 values: 4 + 16 + 48 + 11; the whole to each of three.
  spec.rounds.codecs = {{CodecKind::kTopK2, 0, 64}};
  CHECK(EstimateCost(Input(&spec, 4)).upload_bytes_per_round == 3 * 16'543);
  // Of several, what the job may come to send.
  spec.rounds.codecs = config::AutoCodecs();
  CHECK(EstimateCost(Input(&spec, 4)).upload_bytes_per_round == 6 * kParams);
  spec.rounds.codecs = {{CodecKind::kInt8, 256}};
}

// Left factors of 3713 rows in all: 65 + 64 + 4 (128 + 128 + 128 + 512); right ones of 4864 columns:
// 2 * 128 + 4 (384 + 128 + 512 + 128); nine norms of 128 go whole.
TEST_CASE("a round of low-rank factors costs the wire both passes, and the state the right ones") {
  JobSpec spec = Spec();
  spec.rounds.codecs = {{CodecKind::kFp32}};
  spec.rounds.rank = 4;
  constexpr uint64_t kFirst = 4 * 4 * 3713, kRight = 4 * 4 * 4864, kSecond = kRight + 4 * 1152;
  CostInput in = Input(&spec, 4);
  Cost cost = EstimateCost(in);
  CHECK(cost.upload_bytes_per_round == 3 * (kFirst + kSecond) / 2);
  CHECK(Item(cost.host_memory, "packed delta") == 2 * (kFirst + kSecond));
  CHECK(Item(cost.host_memory, "gdfd's packed delta") == kFirst + kSecond);
  CHECK(Item(cost.host_memory, "gdfd's mean") == kFirst + kSecond);
  CHECK(Item(cost.host_memory, "gdfd's slices of others") == kSecond * 3 * 3 / 8);
  CHECK(Item(cost.host_memory, "gdfd's outer state") == 2 * (2 * 4 * kParams + kRight));
  in.upload_bytes_per_sec = 1'000'000;
  CHECK(absl::ToDoubleSeconds(*EstimateCost(in).exchange_time) == Approx(40 * 1.5e-6 * (kFirst + kSecond)));
}

TEST_CASE("a round of a fragment costs the wire a fragment, and memory for what it leaves") {
  JobSpec spec = Spec();
  spec.rounds.fragments = 5;  // of 160,820 parameters, 629 scales
  const Cost cost = EstimateCost(Input(&spec, 4));
  CHECK(cost.num_rounds == 200);
  CHECK(cost.upload_bytes_per_round == 3 * (160'820 + 4 * 629) / 2);
  CHECK(Item(cost.host_memory, "packed delta") == 2 * (160'820 + 4 * 629));
  CHECK(Item(cost.host_memory, "gdfd's mean") == 4 * 160'820);
  CHECK(Item(cost.host_memory, "local parameters") == 4 * kParams);
  CHECK(Item(cost.host_memory, "residual") == 4 * kParams);
}

TEST_CASE("rounds, tokens and parameters") {
  const JobSpec spec = Spec();
  const Cost cost = EstimateCost(Input(&spec, 4));
  CHECK(cost.num_parameters == static_cast<int64_t>(kParams));
  CHECK(cost.num_rounds == 40);
  CHECK(cost.tokens == 2000.0 * 12 * 64 * 4);
  CHECK(cost.download_bytes_once == 1'000'000);
}

TEST_CASE("memory of a node that trains on its CPU") {
  const JobSpec spec = Spec();
  const Cost cost = EstimateCost(Input(&spec, 4));
  const CostSum& m = cost.host_memory;
  CHECK(Item(m, "parameters") == 4 * kParams);
  CHECK(Item(m, "gradients") == 4 * kParams);
  CHECK(Item(m, "optimizer state") == 8 * kParams);
  CHECK(Item(m, "bf16 weights") == 0);
  // 768 tokens * (4 layers * (8*128 + 2*512) values * 4 bytes + 3 * 65 * 4)
  CHECK(Item(m, "activations") == 768 * (4 * 2048 * 4 + 780));
  CHECK(Item(m, "round start") == 4 * kParams);
  CHECK(Item(m, "residual") == 4 * kParams);
  CHECK(Item(m, "packed delta") == 2 * 816'660);
  CHECK(Item(m, "tokens") == 4'000'000);
  CHECK(Item(m, "worker's program") == 384 * kMiB);
  CHECK(Item(m, "gdfd's outer state") == 16 * kParams);  // θ and momentum, twice
  CHECK(Item(m, "gdfd's packed delta") == 816'660);
  CHECK(Item(m, "gdfd's slices of others") == 3 * 816'660 * 3 / 8);  // a share of 1.5 / 4
  CHECK(Item(m, "gdfd's connections") == 3 * 16 * kMiB);
  CHECK(Item(m, "gdfd's program") == 64 * kMiB);
  CHECK(m.total_bytes() ==
        40 * kParams + 25'764'864 + 4'000'000 + 3 * 816'660 + 3 * 816'660 * 3 / 8 + 496 * kMiB);
  CHECK(cost.gpu_memory.items.empty());
  CHECK(Item(cost.disk, "dataset") == 1'000'000);
  CHECK(Item(cost.disk, "checkpoints") == 2 * 8 * kParams);
  CHECK(Item(cost.disk, "node's own state") == 12 * kParams);
  CHECK(Item(cost.disk, "kept checkpoints") == 0);
  CHECK(Item(m, "gdfd's checkpoint") == 0);
}

TEST_CASE("kept checkpoints take disk for all of a state, and memory for the one that is being written") {
  JobSpec spec = Spec();
  spec.checkpoints = {10, 5};
  const Cost cost = EstimateCost(Input(&spec, 4));
  CHECK(Item(cost.host_memory, "gdfd's checkpoint") == 8 * kParams);
  CHECK(Item(cost.disk, "kept checkpoints") == 5 * (8 + 12) * kParams);
}

TEST_CASE("what the job's options change") {
  JobSpec spec = Spec();
  spec.train.optimizer.kind = config::InnerOptimizer::kSgd;
  spec.rounds.outer = {config::OuterOptimizer::kSgd, 1.0, 0.0};
  spec.train.recompute = true;
  spec.train.precision = config::Precision::kBf16;
  Cost cost = EstimateCost(Input(&spec, 1));
  CHECK(Item(cost.host_memory, "optimizer state") == 0);
  CHECK(Item(cost.host_memory, "gdfd's outer state") == 8 * kParams);
  CHECK(Item(cost.host_memory, "gdfd's connections") == 0);
  CHECK(Item(cost.host_memory, "bf16 weights") == 2 * kParams);
  // 768 tokens * ((4 layers * 128 + one layer's 2048) values * 2 bytes + 780)
  CHECK(Item(cost.host_memory, "activations") == 768 * (2560 * 2 + 780));
  CHECK(Item(cost.disk, "checkpoints") == 2 * 4 * kParams);
  spec.train.optimizer.momentum = 0.9;
  CHECK(Item(EstimateCost(Input(&spec, 1)).host_memory, "optimizer state") == 4 * kParams);
}

TEST_CASE("on GPUs the worker's memory is theirs, and the batch is shared") {
  const JobSpec spec = Spec();
  CostInput in = Input(&spec, 2);
  in.gpu = true;
  in.gpus_per_node = 4;
  const Cost cost = EstimateCost(in);
  CHECK(Item(cost.host_memory, "parameters") == 0);
  CHECK(Item(cost.gpu_memory, "parameters") == 4 * kParams);
  CHECK(Item(cost.gpu_memory, "bf16 weights") == 2 * kParams);  // precision: auto
  CHECK(Item(cost.gpu_memory, "activations") == 3 * 64 * (4 * 2048 * 2 + 780));
  // Deltas are taken on the host.
  CHECK(Item(cost.gpu_memory, "residual") == 0);
  CHECK(Item(cost.host_memory, "residual") == 4 * kParams);
  CHECK(Item(cost.host_memory, "round start") == 4 * kParams);
  CHECK(Item(cost.host_memory, "gdfd's outer state") == 16 * kParams);
}

TEST_CASE("Llama keeps its own values for the backward pass") {
  const JobSpec spec = Spec();
  CostInput in = Input(&spec, 1);
  in.shape = LlamaShape{.layers = 2,
                        .heads = 4,
                        .kv_heads = 2,
                        .head_width = 8,
                        .width = 32,
                        .ffn_width = 64,
                        .context = 64,
                        .vocab = 65};
  // 768 * (2 * (4*32 + 3*32 + 3*16 + 4*64) * 4 + 780)
  CHECK(Item(EstimateCost(in).host_memory, "activations") == 768 * (2 * 528 * 4 + 780));
}

TEST_CASE("time is told only when a speed is known") {
  JobSpec spec = Spec();
  CostInput in = Input(&spec, 4);
  CHECK_FALSE(EstimateCost(in).compute_time.has_value());
  CHECK_FALSE(EstimateCost(in).exchange_time.has_value());
  in.tokens_per_sec = 7680;             // 2000 * 768 / 7680
  in.upload_bytes_per_sec = 1'224'990;  // one round a second
  CHECK(EstimateCost(in).compute_time == absl::Seconds(200));
  CHECK(EstimateCost(in).exchange_time == absl::Seconds(40));
  spec.rounds.delay_steps = 5;  // of 50, in which a tenth of 200 seconds passes
  CHECK(EstimateCost(in).exchange_time == absl::Seconds(20));
  spec.rounds.delay_steps = 25;
  CHECK(EstimateCost(in).exchange_time == absl::ZeroDuration());
}

TEST_CASE("the speed of past rounds gives the time of others") {
  const JobSpec spec = Spec();
  CostInput in = Input(&spec, 4);
  // Two rounds of four members: 768 tokens each in 0.1 s, and an exchange of half a second.
  wire::RoundMetrics round;
  round.tokens = 4 * 768;
  round.contributors = 4;
  round.compute_sec = 0.1;
  round.exchange_sec = 0.5;
  const Cost cost = EstimateCost(in);
  const std::optional<Speed> speed = MeasuredSpeed(cost, {round, round});
  REQUIRE(speed);
  CHECK(speed->flops_per_sec == Approx(6.0 * kParams * 7680));
  CHECK(speed->exchange_bytes_per_sec == Approx(2.0 * static_cast<double>(cost.upload_bytes_per_round)));
  SetSpeed(*speed, kParams, &in);
  CHECK(absl::ToDoubleSeconds(*EstimateCost(in).compute_time) == Approx(200));
  CHECK(absl::ToDoubleSeconds(*EstimateCost(in).exchange_time) == Approx(20));
  SetSpeed(*speed, 2 * kParams, &in);  // a model of twice the size
  CHECK(absl::ToDoubleSeconds(*EstimateCost(in).compute_time) == Approx(400));
  // One node exchanges nothing, so its rounds say nothing of the links; rounds without compute say nothing at all.
  round.contributors = 1;
  CHECK(MeasuredSpeed(cost, {round})->exchange_bytes_per_sec == 0);
  round.compute_sec = 0;
  CHECK_FALSE(MeasuredSpeed(cost, {round}));
  CHECK_FALSE(MeasuredSpeed(cost, {}));
}

TEST_CASE("a sum shows its parts") {
  CostSum sum;
  sum.Add("parameters", 1 << 20);
  sum.Add("nothing", 0);
  sum.Add("gradients", 1 << 20);
  CHECK(sum.ToString() == "2.0 MiB: parameters 1.0 MiB + gradients 1.0 MiB");
}

}  // namespace
}  // namespace gdf::schedule
