#include "gdfd/worker/optimizer.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <catch2/catch.hpp>
#include <cmath>

namespace gdf::worker {
namespace {

const float kStart[4] = {1.0f, -2.0f, 3.0f, 0.5f};
const float kGrad[4] = {0.1f, 0.2f, -0.3f, 0.4f};

}  // namespace

// Algorithm 2 of arXiv:1711.05101, in double.
TEST_CASE("AdamW takes the published step, decay on matrices only") {
  const c10::InferenceMode inference;
  config::OptimizerSpec spec;
  spec.beta1 = 0.9;
  spec.beta2 = 0.99;
  spec.weight_decay = 0.1;
  at::Tensor theta = at::from_blob(const_cast<float*>(kStart), {4}, at::kFloat).clone();
  at::Tensor grad = at::from_blob(const_cast<float*>(kGrad), {4}, at::kFloat).clone();
  InnerOptimizer optimizer(spec, theta, grad, 2);
  double m[4] = {}, v[4] = {}, expected[4];
  for (int i = 0; i < 4; ++i) expected[i] = kStart[i];
  for (int step = 0; step < 3; ++step) {
    const double lr = 0.01 * (step + 1);
    optimizer.Step(lr, step);
    for (int i = 0; i < 4; ++i) {
      const double g = kGrad[i];
      if (i < 2) expected[i] *= 1 - lr * 0.1;
      m[i] = 0.9 * m[i] + 0.1 * g;
      v[i] = 0.99 * v[i] + 0.01 * g * g;
      const double m_hat = m[i] / (1 - std::pow(0.9, step + 1));
      const double v_hat = v[i] / (1 - std::pow(0.99, step + 1));
      expected[i] -= lr * m_hat / (std::sqrt(v_hat) + 1e-8);
      CHECK(theta[i].item<double>() == Approx(expected[i]).epsilon(1e-5));
    }
  }
}

TEST_CASE("SGD with momentum and decoupled decay") {
  const c10::InferenceMode inference;
  config::OptimizerSpec spec;
  spec.kind = config::InnerOptimizer::kSgd;
  spec.momentum = 0.5;
  spec.weight_decay = 0.1;
  at::Tensor theta = at::from_blob(const_cast<float*>(kStart), {4}, at::kFloat).clone();
  at::Tensor grad = at::from_blob(const_cast<float*>(kGrad), {4}, at::kFloat).clone();
  InnerOptimizer optimizer(spec, theta, grad, 2);
  optimizer.Step(0.1, 0);
  optimizer.Step(0.1, 1);
  // 1.0: (1 * 0.99 - 0.01) * 0.99 - 0.1 * 0.15; 0.5: 0.5 - 0.04 - 0.1 * 0.6
  CHECK(theta[0].item<double>() == Approx(0.9552));
  CHECK(theta[3].item<double>() == Approx(0.4));
}

TEST_CASE("SGD without momentum keeps no state") {
  const c10::InferenceMode inference;
  config::OptimizerSpec spec;
  spec.kind = config::InnerOptimizer::kSgd;
  at::Tensor theta = at::ones({4}), grad = at::ones({4});
  InnerOptimizer optimizer(spec, theta, grad, 4);
  CHECK(optimizer.moments().empty());
  optimizer.Step(0.25, 0);
  CHECK(theta[0].item<double>() == 0.75);
}

}  // namespace gdf::worker
