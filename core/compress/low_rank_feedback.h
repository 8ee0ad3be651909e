// Error feedback of a node whose deltas go as low-rank factors, in two passes.
#ifndef GDF_CORE_COMPRESS_LOW_RANK_FEEDBACK_H_
#define GDF_CORE_COMPRESS_LOW_RANK_FEEDBACK_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/compress/low_rank.h"
#include "core/compress/residual.h"

namespace gdf::compress {

// Each Stage is followed by any number of Project and one Settle. Not thread-safe.
//
//   Stage:    e <- beta e + delta;  u = e, scaled to L2 norm max_norm if longer;  P = u Q
//   Project:  P̂ = the mean of everybody's P, orthonormal;  c = P̂ (uᵀ P̂)ᵀ, and the tensors that go whole
//   Settle(applied): e <- u - c of the last Project if it was applied, else e stays. Without a Project what was applied
//             is a contribution of a process before this one, of whose factors nothing is known here: e <- 0.
class LowRankFeedback {
 public:
  // kInvalidArgument for options out of range, kResourceExhausted when memory lacks.
  static absl::StatusOr<LowRankFeedback> Create(LowRank low_rank, const ErrorFeedbackOptions& options);

  const LowRank& low_rank() const { return low_rank_; }

  // Writes every P to `left`, with `right`, the last round's mean Q. Errors as ErrorFeedback's, and
  // kInvalidArgument, with nothing staged, when a factor overflows float32; its delta is in the residual then.
  absl::Status Stage(DeltaSource delta, absl::Span<const float> right, absl::Span<float> left);

  // `mean`: of everybody's left; `seed` as everybody's. Writes Q and what goes whole to `second`. kFailedPrecondition
  // before Stage, kInvalidArgument when `mean` is not finite or a factor overflows.
  absl::Status Project(absl::Span<const float> mean, uint64_t seed, absl::Span<float> second);

  // Ends what Stage began. kFailedPrecondition when nothing is staged.
  absl::Status Settle(bool applied);

  // As ErrorFeedback's.
  absl::Span<const float> residual() const { return residual_.values(); }
  absl::Status Restore(uint64_t first, absl::Span<const float> residual);
  absl::Status SetOptions(const ErrorFeedbackOptions& options);
  double last_norm() const { return residual_.last_norm(); }

 private:
  LowRankFeedback(LowRank low_rank, Residual residual)
      : low_rank_(std::move(low_rank)), residual_(std::move(residual)) {}
  void Drop();

  LowRank low_rank_;
  Residual residual_;
  std::vector<float> left_, second_;  // of the last Project; empty before
  bool is_projected_ = false;
  bool is_staged_ = false;
};

}  // namespace gdf::compress

#endif  // GDF_CORE_COMPRESS_LOW_RANK_FEEDBACK_H_
