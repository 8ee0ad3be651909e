#include "core/schedule/cost.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/base/check.h"
#include "core/base/text.h"
#include "core/compress/codec.h"
#include "core/compress/low_rank.h"
#include "core/config/model_parameters.h"
#include "core/schedule/exchange_time.h"
#include "core/schedule/exchange_tuner.h"

namespace gdf::schedule {
namespace {

using config::Gpt2Shape;
using config::LlamaShape;

constexpr uint64_t kFloatBytes = 4;
// Resident sizes of the processes before they hold a model: libtorch's code, allocators and thread
// stacks; with a GPU the CUDA context on both sides. Rounded up, so that a job that fits by this
// estimate fits.
constexpr uint64_t kWorkerBaseCpu = uint64_t{384} << 20;
constexpr uint64_t kWorkerBaseGpu = uint64_t{1536} << 20;
constexpr uint64_t kGpuContext = uint64_t{640} << 20;
constexpr uint64_t kDaemonBase = uint64_t{64} << 20;
// The transport's windows and queues towards one peer (docs/adr/0002-transport.md).
constexpr uint64_t kConnectionBytes = uint64_t{16} << 20;

uint64_t U(int64_t value) { return static_cast<uint64_t>(value); }

// Values that one layer keeps for the backward pass, per token. Counted as in Korthikanti et al.,
// arXiv:2205.05198, without dropout and without the attention matrix, which fused attention does
// not store: block input, two norms' outputs, q k v, attention output, second residual, and the
// feed-forward part's inner values.
uint64_t LayerActivations(const Gpt2Shape& s) { return 8 * U(s.width) + 2 * U(s.ffn_width); }

// Llama keeps q and k before and after rotation, and gate, up, silu(gate) and their product.
uint64_t LayerActivations(const LlamaShape& s) {
  const uint64_t q = U(s.heads * s.head_width), kv = U(s.kv_heads * s.head_width);
  return 4 * U(s.width) + 3 * q + 3 * kv + 4 * U(s.ffn_width);
}

// Bytes kept for one forward and backward pass over `tokens` tokens.
uint64_t ActivationBytes(const CostInput& in, uint64_t tokens, uint64_t value_bytes) {
  const uint64_t layer = std::visit([](const auto& s) { return LayerActivations(s); }, in.shape);
  const uint64_t layers = U(config::Layers(in.shape));
  // Recomputation keeps each layer's input and redoes one layer at a time.
  const uint64_t per_token =
      in.spec->train.recompute ? layers * U(config::Width(in.shape)) + layer : layers * layer;
  // Logits, their log-probabilities and the gradient, always float32.
  const uint64_t logits = 3 * U(config::Vocab(in.shape)) * kFloatBytes;
  return tokens * (per_token * value_bytes + logits);
}

uint64_t OptimizerBytes(const config::OptimizerSpec& optimizer, uint64_t vector_bytes) {
  if (optimizer.kind == config::InnerOptimizer::kAdamW) return 2 * vector_bytes;
  return optimizer.momentum > 0 ? vector_bytes : 0;
}

// Of a codec that job.yaml names.
std::unique_ptr<compress::Codec> MakeCodec(const config::CodecSpec& spec) {
  absl::StatusOr<std::unique_ptr<compress::Codec>> codec = compress::Codec::Create(spec);
  GDF_CHECK(codec.ok());
  return *std::move(codec);
}

// What a delta is sent as: `passes` exchanges of packed values one after the other, and what an outer state holds for
// them beside θ and the momentum.
struct Sent {
  std::vector<uint64_t> passes;  // bytes of each
  Form form = Form::kDirect;
  uint64_t state_bytes = 0;

  uint64_t bytes() const { return std::accumulate(passes.begin(), passes.end(), uint64_t{0}); }
  uint64_t largest() const { return *std::max_element(passes.begin(), passes.end()); }
  // By one of `nodes` that share equally.
  double moved(uint64_t nodes) const {
    return BytesMoved(form, static_cast<double>(bytes()), nodes, 1.0 / static_cast<double>(nodes));
  }
};

// By that of several codecs which has a node send most: a job that chooses may come to use it.
Sent SentByLargest(const std::vector<config::CodecSpec>& codecs, uint64_t num_values, uint64_t nodes) {
  Sent largest;
  for (const config::CodecSpec& spec : codecs) {
    const std::unique_ptr<compress::Codec> codec = MakeCodec(spec);
    const Sent sent = {{codec->PackedSize(num_values)}, codec->is_dense() ? Form::kDirect : Form::kAllGather};
    if (largest.passes.empty() || sent.moved(nodes) > largest.moved(nodes)) largest = sent;
  }
  return largest;
}

// PowerSGD's: the left factors, then the right ones and what goes whole, as fp32.
Sent SentAsFactors(const config::ModelShape& shape, uint32_t rank) {
  uint64_t left = 0, right = 0, whole = 0;
  for (const config::ParameterShape& parameter : config::ParametersOf(shape)) {
    const uint64_t rows = parameter.dims.size() > 1 ? U(parameter.dims[0]) : 1;
    const uint64_t columns = U(parameter.dims.back());
    const bool apart = compress::LowRank::TakesApart(rank, rows, columns);
    left += apart ? rank * rows : 0;
    right += apart ? rank * columns : 0;
    whole += apart ? 0 : rows * columns;
  }
  return {{left * kFloatBytes, (right + whole) * kFloatBytes}, Form::kDirect, right * kFloatBytes};
}

// The dataset as int32 tokens: one a byte at most for char and byte, and text that a trained
// tokenizer cuts into less than three bytes a token is rare.
uint64_t TokenBytes(const CostInput& in) {
  const config::TokenizerKind kind = in.spec->data.tokenizer;
  const bool small = kind == config::TokenizerKind::kChar || kind == config::TokenizerKind::kByte;
  return in.dataset_bytes / (small ? 1 : 3) * sizeof(int32_t);
}

// What computing takes, on the host or on each GPU.
CostSum ComputeMemory(const CostInput& in, uint64_t vector_bytes) {
  const config::TrainSpec& t = in.spec->train;
  const bool bf16 = t.precision == config::Precision::kBf16 ||
                    (t.precision == config::Precision::kAuto && in.gpu);
  const uint64_t devices = in.gpu ? U(std::max<int64_t>(1, in.gpus_per_node)) : 1;
  const uint64_t sequences = (U(t.batch_size) + devices - 1) / devices;
  const uint64_t tokens = sequences * U(in.spec->data.sequence_length);
  CostSum sum;
  sum.Add("parameters", vector_bytes);
  sum.Add("gradients", vector_bytes);
  sum.Add("optimizer state", OptimizerBytes(t.optimizer, vector_bytes));
  sum.Add("bf16 weights", bf16 ? vector_bytes / 2 : 0);
  sum.Add("activations", ActivationBytes(in, tokens, bf16 ? 2 : kFloatBytes));
  return sum;
}

// Bytes of one node's packed delta, and of what it receives of the others' to reduce.
struct Packed {
  uint64_t delta = 0;
  uint64_t slices = 0;
  uint64_t mean = 0;   // unpacked, unless it is all of θ and becomes θ_t+1 in its place
  uint64_t state = 0;  // what the outer state holds for the next one
};

// What the worker holds on the host wherever it computes. A delta is packed out of the parameters
// and θ_t into the window, and kept packed until it is settled.
void AddWorker(const CostInput& in, uint64_t vector_bytes, uint64_t packed_bytes, CostSum* host) {
  host->Add("round start", vector_bytes);
  host->Add("residual", vector_bytes);
  // What a round leaves of them is laid aside while θ is validated.
  const config::RoundsSpec& rounds = in.spec->rounds;
  host->Add("local parameters", rounds.fragments > 1 || rounds.mixing > 0 ? vector_bytes : 0);
  host->Add("packed delta", 2 * packed_bytes);
  host->Add("tokens", TokenBytes(in));
  host->Add("worker's program", in.gpu ? kWorkerBaseGpu : kWorkerBaseCpu);
}

// The daemon's peak is the end of an exchange: θ and momentum, committed and in the shadow, in
// which the mean became θ_t+1, this node's packed delta and the slices of the others'
// (docs/memory.md).
void AddDaemon(const CostInput& in, uint64_t outer_bytes, const Packed& packed, CostSum* host) {
  host->Add("gdfd's outer state", 2 * outer_bytes);
  host->Add("gdfd's mean", packed.mean);
  host->Add("gdfd's packed delta", packed.delta);
  host->Add("gdfd's slices of others", packed.slices);
  host->Add("gdfd's connections", (U(in.num_nodes) - 1) * kConnectionBytes);
  host->Add("gdfd's program", kDaemonBase);
}

void EstimateMemory(const CostInput& in, const Packed& packed, Cost* cost) {
  const uint64_t vector_bytes = U(cost->num_parameters) * kFloatBytes;
  CostSum compute = ComputeMemory(in, vector_bytes);
  if (in.gpu) {
    cost->gpu_memory = std::move(compute);
    cost->gpu_memory.Add("CUDA context", kGpuContext);
  } else {
    cost->host_memory = std::move(compute);
  }
  const bool momentum = in.spec->rounds.outer.optimizer == config::OuterOptimizer::kNesterov;
  const uint64_t outer_bytes = (momentum ? 2 : 1) * vector_bytes + packed.state;
  const config::CheckpointsSpec& checkpoints = in.spec->checkpoints;
  const uint64_t own_bytes = OptimizerBytes(in.spec->train.optimizer, vector_bytes) + vector_bytes;
  AddWorker(in, vector_bytes, packed.delta, &cost->host_memory);
  AddDaemon(in, outer_bytes, packed, &cost->host_memory);
  // A state that is still being written when the next round is committed.
  cost->host_memory.Add("gdfd's checkpoint", checkpoints.every > 0 ? outer_bytes : 0);

  cost->disk.Add("dataset", in.dataset_bytes);
  cost->disk.Add("starting weights", in.spec->model.from ? vector_bytes : 0);
  cost->disk.Add("checkpoints", U(in.spec->output.keep_checkpoints) * outer_bytes);
  cost->disk.Add("node's own state", own_bytes);
  cost->disk.Add("kept checkpoints", checkpoints.every > 0 ? U(checkpoints.keep) * (outer_bytes + own_bytes) : 0);
}

}  // namespace

void CostSum::Add(std::string name, uint64_t bytes) {
  if (bytes > 0) items.push_back({std::move(name), bytes});
}

uint64_t CostSum::total_bytes() const {
  uint64_t total = 0;
  for (const CostItem& item : items) total += item.bytes;
  return total;
}

std::string CostSum::ToString() const {
  std::string text = HumanBytes(total_bytes());
  for (size_t i = 0; i < items.size(); ++i) {
    absl::StrAppendFormat(&text, "%s%s %s", i == 0 ? ": " : " + ", items[i].name,
                          HumanBytes(items[i].bytes));
  }
  return text;
}

Cost EstimateCost(const CostInput& input) {
  GDF_CHECK(input.spec != nullptr && input.num_nodes > 0 && config::Vocab(input.shape) > 0);
  const config::JobSpec& spec = *input.spec;
  const uint64_t n = U(input.num_nodes);
  Cost cost;
  cost.num_parameters = config::NumParameters(input.shape);
  cost.num_rounds = config::NumRounds(spec);
  const double node_tokens = static_cast<double>(spec.train.steps) *
                             static_cast<double>(spec.train.batch_size) *
                             static_cast<double>(spec.train.gradient_accumulation) *
                             static_cast<double>(spec.data.sequence_length);
  cost.tokens = node_tokens * static_cast<double>(n);

  const uint64_t fragments = U(spec.rounds.fragments);
  const uint64_t fragment = (U(cost.num_parameters) + fragments - 1) / fragments;
  const Sent sent = spec.rounds.rank > 0 ? SentAsFactors(input.shape, spec.rounds.rank)
                                         : SentByLargest(spec.rounds.codecs, fragment, n);
  cost.upload_bytes_per_round = static_cast<uint64_t>(sent.moved(n) + 0.5);
  cost.download_bytes_per_round = cost.upload_bytes_per_round;
  cost.download_bytes_once =
      input.dataset_bytes + (spec.model.from ? U(cost.num_parameters) * kFloatBytes : 0);
  // The largest shard that ExchangeTuner deals; two nodes share equally.
  const double shard = sent.form != Form::kDirect ? 1 : n > 2 ? ExchangeTuner::kMaxShare / static_cast<double>(n) : 0.5;
  Packed packed;
  packed.delta = sent.bytes();
  packed.slices = static_cast<uint64_t>(static_cast<double>((n - 1) * sent.largest()) * shard);
  packed.mean = fragments > 1 ? fragment * kFloatBytes : spec.rounds.rank > 0 ? sent.bytes() : 0;
  packed.state = sent.state_bytes;
  EstimateMemory(input, packed, &cost);

  if (input.tokens_per_sec && *input.tokens_per_sec > 0) {
    cost.compute_time = absl::Seconds(node_tokens / *input.tokens_per_sec);
  }
  if (input.upload_bytes_per_sec && *input.upload_bytes_per_sec > 0) {
    const auto rate = static_cast<double>(*input.upload_bytes_per_sec);
    ExchangeLoad load;
    load.links.assign(n, {rate, rate});
    cost.exchange_time = absl::ZeroDuration();
    for (const uint64_t bytes : sent.passes) {
      load.packed_bytes = static_cast<double>(bytes);
      *cost.exchange_time += static_cast<double>(cost.num_rounds) * ExchangeTime(sent.form, load);
    }
    if (cost.compute_time) {  // the delay of each round runs beside its exchange
      const double share = static_cast<double>(spec.rounds.delay_steps * spec.rounds.fragments) /
                           static_cast<double>(spec.rounds.inner_steps);
      cost.exchange_time =
          std::max(absl::ZeroDuration(), *cost.exchange_time - share * *cost.compute_time);
    }
  }
  return cost;
}

}  // namespace gdf::schedule
