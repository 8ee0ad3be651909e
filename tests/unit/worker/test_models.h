// Small models and texts shared by the worker's tests.
#ifndef GDF_TESTS_UNIT_WORKER_TEST_MODELS_H_
#define GDF_TESTS_UNIT_WORKER_TEST_MODELS_H_

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/config/model_shape.h"
#include "gdfd/worker/params/parameters.h"
#include "gdfd/worker/trainer.h"

namespace gdf::worker {

inline void RequireOk(const absl::Status& status) {
  INFO(status.ToString());
  REQUIRE(status.ok());
}

template <typename T>
T ValueOf(absl::StatusOr<T> value) {
  RequireOk(value.status());
  return *std::move(value);
}

inline config::Gpt2Shape TinyGpt2() {
  config::Gpt2Shape shape;
  shape.layers = 2;
  shape.heads = 2;
  shape.width = 16;
  shape.ffn_width = 32;
  shape.context = 16;
  shape.vocab = 11;
  shape.bias = false;
  shape.activation = config::Activation::kGelu;
  return shape;
}

inline config::LlamaShape TinyLlama() {
  config::LlamaShape shape;
  shape.layers = 2;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.head_width = 4;
  shape.width = 16;
  shape.ffn_width = 24;
  shape.context = 16;
  shape.vocab = 11;
  return shape;
}

inline std::vector<float> RandomParameters(const config::ModelShape& shape, uint64_t seed = 1) {
  std::vector<float> values(ValueOf(ParameterLayout(shape)).num_params());
  RequireOk(InitParameters(shape, seed, absl::MakeSpan(values)));
  return values;
}

// A text in which the next id follows from the one before, so that there is something to learn.
inline std::vector<int32_t> PatternTokens(size_t count, int32_t vocab = 11) {
  std::vector<int32_t> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>(i * i % vocab);
  return ids;
}

// Options of a small run; `train` and `valid` must outlive the trainer.
inline TrainerOptions TinyRun(const config::ModelShape& shape, const std::vector<int32_t>& train,
                              const std::vector<int32_t>& valid) {
  TrainerOptions options;
  options.model.shape = shape;
  options.train.steps = 200;
  options.train.batch_size = 4;
  options.train.optimizer.lr = 1e-2;
  options.train.optimizer.weight_decay = 0.1;
  options.train.seed = 3;
  options.sequence_length = 8;
  options.train_tokens = train;
  options.valid_tokens = valid;
  return options;
}

inline std::vector<float> ParametersOf(const LanguageModel& model) {
  std::vector<float> values(model.num_params());
  RequireOk(model.CopyParameters(0, absl::MakeSpan(values)));
  return values;
}

// ‖a − b‖₂ / ‖b‖₂
inline double RelativeDifference(absl::Span<const float> a, absl::Span<const float> b) {
  REQUIRE(a.size() == b.size());
  double difference = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    norm += double{b[i]} * b[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace gdf::worker

#endif  // GDF_TESTS_UNIT_WORKER_TEST_MODELS_H_
