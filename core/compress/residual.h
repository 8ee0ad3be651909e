// What a node's contributions have lost so far: e of error feedback (Seide et al. 2014; Karimireddy et al. 2019,
// arXiv:1901.09847), whatever packs them. Steps 4 and 5 of a round.
#ifndef GDF_CORE_COMPRESS_RESIDUAL_H_
#define GDF_CORE_COMPRESS_RESIDUAL_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/tensor/flat_buffer.h"

namespace gdf::compress {

struct ErrorFeedbackOptions {
  float beta = 1.0f;      // share of the old residual that is carried on, in [0, 1]
  double max_norm = 0.0;  // L2 norm above which the contribution is scaled down; 0: never
};

// kInvalidArgument for options out of range.
absl::Status CheckOptions(const ErrorFeedbackOptions& options);

// Writes elements `first` and on of a delta to `out`, the same ones whenever it is asked.
using DeltaSource = absl::FunctionRef<absl::Status(uint64_t first, absl::Span<float> out)>;

// Not thread-safe. Owns e, [num_params] float32, zeros at first.
class Residual {
 public:
  // Values that are worked on together, so that they stay in the processor's cache between the steps: a
  // multiple of every codec's block.
  static constexpr size_t kPiece = size_t{1} << 16;

  // kInvalidArgument for options out of range, kResourceExhausted when memory lacks.
  static absl::StatusOr<Residual> Create(uint64_t num_params, const ErrorFeedbackOptions& options);

  // kInvalidArgument, with no change, for options out of range.
  absl::Status SetOptions(const ErrorFeedbackOptions& options);

  // e <- beta e + delta; u = e, scaled to L2 norm max_norm if longer, of which `use` is given one piece after the
  // other, each as it is ready. kInvalidArgument, with e unchanged, when delta is not finite or the sum is not.
  // The source is asked for every element twice; its errors end the call, the second time with a spoilt e.
  absl::Status Add(DeltaSource delta, absl::FunctionRef<void(uint64_t first, absl::Span<const float> u)> use);

  // Makes u of elements [first, first + count), as the last Add scaled it, e itself; returns them, to take from.
  absl::Span<float> Take(uint64_t first, uint64_t count);

  // Puts back elements `first` and on of a saved residual. kInvalidArgument, with no change, when there are not
  // so many or they are not finite.
  absl::Status Restore(uint64_t first, absl::Span<const float> residual);

  absl::Span<const float> values() const { return values_.span(); }
  uint64_t num_params() const { return values_.size(); }
  float scale() const { return scale_; }        // u = scale e, of the last Add
  double last_norm() const { return last_norm_; }  // L2 norm of e, then

 private:
  Residual(const ErrorFeedbackOptions& options, tensor::FlatBuffer values)
      : options_(options), values_(std::move(values)) {}

  // Writes elements `first` and on of beta e + delta to `out`.
  absl::Status Sum(DeltaSource delta, uint64_t first, absl::Span<float> out) const;

  ErrorFeedbackOptions options_;
  tensor::FlatBuffer values_;
  float scale_ = 1.0f;
  double last_norm_ = 0.0;
};

}  // namespace gdf::compress

#endif  // GDF_CORE_COMPRESS_RESIDUAL_H_
