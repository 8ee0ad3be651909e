// What a member holds at its peak, in the table of docs/memory.md and in the estimate of a job's cost, against what a
// round really takes. Every buffer of the model's size comes from calloc, and nothing else so large does.
#include <malloc.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "core/schedule/cost.h"
#include "tests/unit/rounds/one_member.h"

namespace {

// Large blocks from calloc. These tests have one thread.
constexpr size_t kLarge = size_t{1} << 20;
constinit std::array<void*, 64> blocks{};
constinit size_t held = 0;
constinit size_t peak = 0;

}  // namespace

extern "C" {

void* __libc_calloc(size_t count, size_t size);
void __libc_free(void* block);

void* calloc(size_t count, size_t size) {
  void* block = __libc_calloc(count, size);
  if (malloc_usable_size(block) < kLarge) return block;
  const auto free_slot = std::find(blocks.begin(), blocks.end(), nullptr);
  if (free_slot == blocks.end()) std::abort();
  *free_slot = block;
  held += malloc_usable_size(block);
  peak = std::max(peak, held);
  return block;
}

void free(void* block) {
  if (malloc_usable_size(block) >= kLarge) {
    const auto known = std::find(blocks.begin(), blocks.end(), block);
    if (known != blocks.end()) {
      held -= malloc_usable_size(block);
      *known = nullptr;
    }
  }
  __libc_free(block);
}

}  // extern "C"

namespace gdf::rounds {
namespace {

// The character GPT of configs/examples: V is 3.1 MiB.
config::JobSpec Spec() {
  config::JobSpec spec;
  config::Gpt2Shape shape;
  shape.layers = 4;
  shape.heads = 4;
  shape.width = 128;
  shape.ffn_width = 512;
  shape.context = 64;
  shape.vocab = 65;
  spec.model.shape = shape;
  spec.data.sequence_length = 64;
  return spec;
}

uint64_t EstimatedOuterState(const config::JobSpec& spec) {
  schedule::CostInput input;
  input.spec = &spec;
  input.shape = *spec.model.shape;
  const schedule::Cost cost = schedule::EstimateCost(input);
  for (const schedule::CostItem& item : cost.host_memory.items) {
    if (item.name == "gdfd's outer state") return item.bytes;
  }
  return 0;
}

TEST_CASE("a round holds what the estimate says, and so does another attempt") {
  const uint64_t num_params = static_cast<uint64_t>(config::NumParameters(*Spec().model.shape));
  const size_t vector_bytes = num_params * sizeof(float);
  const bool momentum = GENERATE(true, false);
  OneMember one(num_params);
  one.spec.model = Spec().model;
  one.spec.data = Spec().data;
  if (!momentum) one.spec.rounds.outer = {config::OuterOptimizer::kSgd, 1.0, 0.0};
  REQUIRE(one.disk.RemoveTree("/state").ok());
  one.StartMember();
  one.EnterFirst();
  // Beside the member's: the lead's mean, and the residual of the simulated worker, from its Emit on.
  const size_t others = 2 * vector_bytes;
  const size_t slack = 64 << 10;  // of the blocks themselves
  peak = held;
  wire::Prepared prepared = one.TrainAndExchange();
  const uint64_t outer_state = EstimatedOuterState(one.spec);
  CHECK(outer_state == (momentum ? 4 : 2) * vector_bytes);
  CHECK(peak <= outer_state + others + slack);
  CHECK(peak >= outer_state + others - vector_bytes);  // the lead may be done before
  peak = held;
  prepared = one.TrainAndExchange(/*attempt=*/2);
  CHECK(peak <= outer_state + others + slack);
  const wire::Receipt receipt = one.ReceiptFor(prepared, {{one.id(1), 64}});
  one.AskFor<wire::Done>(wire::CommitRound{receipt.tag, one.CommitBy(receipt, {0, 2})});
  one.executor.RunUntil([] { return false; }, absl::Seconds(5));
  CHECK(held <= outer_state / 2 + vector_bytes + slack);  // θ_1, its momentum, the worker's residual
}

}  // namespace
}  // namespace gdf::rounds
