// What a training pass holds at its peak, as libtorch's CPU allocator counts it: the same on every
// machine.
#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>

#include "gdfd/worker/model/decoder.h"
#include "tests/unit/worker/test_models.h"

namespace gdf::worker {
namespace {

class PeakCounter : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, int64_t alloc_size, size_t, size_t, c10::Device) override {
    held_ += alloc_size;
    peak_ = std::max(peak_, held_);
  }
  bool memoryProfilingEnabled() const override { return true; }
  int64_t held() const { return held_; }
  int64_t peak() const { return peak_; }

 private:
  int64_t held_ = 0;
  int64_t peak_ = 0;
};

constexpr int64_t kBatch = 8;
constexpr int64_t kLength = 64;
constexpr int64_t kRows = kBatch * kLength;
constexpr int64_t kWidth = 32;
constexpr int64_t kLayers = 12;
constexpr int64_t kFloatBytes = sizeof(float);

config::Gpt2Shape Deep() {
  config::Gpt2Shape shape = TinyGpt2();
  shape.layers = kLayers;
  shape.width = kWidth;
  shape.ffn_width = 4 * kWidth;
  shape.context = kLength;
  return shape;
}

// Bytes at the peak of one training pass beyond the model's own; none may be left after it.
int64_t PeakOfPass(const ModelOptions& options) {
  const auto model = ValueOf(LanguageModel::Create(options));
  RequireOk(model->SetParameters(RandomParameters(options.shape)));
  const c10::InferenceMode inference;
  const at::Tensor ids = at::zeros({kBatch, kLength}, at::kLong);
  const auto counter = std::make_shared<PeakCounter>();
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, counter);
    model->decoder().TrainPass(ids, ids, 1.0 / kRows, GradMode::kSet);
  }
  CHECK(counter->held() == 0);
  return counter->peak();
}

}  // namespace

// A block keeps, per row: its input, two norms' results and statistics, q, k and v (3), the
// attention's result in two orders, the residual between its parts, and the MLP before and after
// its activation (8): 17 widths and a little. Recomputing keeps the input alone, and one block's all
// while that block is worked on.
TEST_CASE("recomputation holds one width per block and row instead of seventeen") {
  const int64_t width_bytes = kRows * kWidth * kFloatBytes;
  const int64_t kept = PeakOfPass({.shape = Deep()});
  const int64_t recomputed = PeakOfPass({.shape = Deep(), .recompute = true});
  INFO("in widths: " << double(kept) / width_bytes << ", " << double(recomputed) / width_bytes);
  CHECK(kept >= 14 * kLayers * width_bytes);
  CHECK(kept <= 20 * kLayers * width_bytes);
  CHECK(recomputed <= (kLayers + 2 * 20) * width_bytes);
}

TEST_CASE("bf16 halves the activations that enter products") {
  const int64_t full = PeakOfPass({.shape = Deep()});
  const int64_t half = PeakOfPass({.shape = Deep(), .bf16 = true});
  INFO(full << " bytes, " << half);
  CHECK(half < full * 7 / 10);
}

// 512 rows of 2^17 logits are 256 MiB; they are made in four parts. Each lives as logits and as
// probabilities for a moment.
TEST_CASE("the logits of a large vocabulary are never there at once") {
  config::Gpt2Shape shape = TinyGpt2();
  shape.vocab = 1 << 17;
  shape.context = kLength;
  const int64_t all_logits = kRows * shape.vocab * kFloatBytes;
  const int64_t peak = PeakOfPass({.shape = shape});
  INFO(peak << " bytes of " << all_logits);
  CHECK(peak < all_logits * 3 / 4);
}

}  // namespace gdf::worker
