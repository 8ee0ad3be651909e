// The outer optimiser: SGD with (Nesterov) momentum on the mean pseudo-gradient (DiLoCo,
// arXiv:2311.08105), into shadow buffers.
#ifndef GDF_CORE_AGGREGATE_OUTER_OPTIMIZER_H_
#define GDF_CORE_AGGREGATE_OUTER_OPTIMIZER_H_

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace gdf::aggregate {

struct OuterSgd {
  float learning_rate = 0.7f;  // in (0, 10]
  float momentum = 0.9f;       // in [0, 1)
  bool nesterov = true;        // no effect when momentum is 0

  bool uses_momentum() const { return momentum != 0.0f; }

  // kInvalidArgument naming the option that is out of range.
  absl::Status Validate() const;

  friend bool operator==(const OuterSgd&, const OuterSgd&) = default;
};

// Any range of the elements, all spans of one length. The outputs may not overlap the inputs, but
// theta_out may be delta itself, which θ_t+1 then replaces. Without momentum both momentum spans are
// empty.
struct OuterStepBuffers {
  absl::Span<const float> theta;     // θ_t
  absl::Span<const float> delta;     // mean over members of θ_t − θ_i
  absl::Span<const float> momentum;  // m_t
  absl::Span<float> theta_out;       // θ_t+1
  absl::Span<float> momentum_out;    // m_t+1
};

// For every element, each operation rounded to float32:
//
//   m' = mu * m + delta
//   θ' = θ - lr * (delta + mu * m')     Nesterov
//   θ' = θ - lr * m'                    plain momentum
//   θ' = θ - lr * delta                 mu = 0
//
// Element-wise: the result does not depend on how ranges are cut. kInvalidArgument when options
// or lengths are wrong or a result is not finite; the outputs then hold any values.
absl::Status OuterStep(const OuterSgd& optimizer, const OuterStepBuffers& buffers);

}  // namespace gdf::aggregate

#endif  // GDF_CORE_AGGREGATE_OUTER_OPTIMIZER_H_
