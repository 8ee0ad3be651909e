// Error feedback: what a codec loses of one delta is added to the next (Seide et al. 2014;
// Karimireddy et al. 2019, arXiv:1901.09847). Steps 4, 5, 6 and 8 of a round.
#ifndef GDF_CORE_COMPRESS_ERROR_FEEDBACK_H_
#define GDF_CORE_COMPRESS_ERROR_FEEDBACK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/compress/codec.h"
#include "core/compress/residual.h"

namespace gdf::compress {

// The residual e of one node's contributions, [num_params] float32. Each Stage is followed by one
// Settle. Not thread-safe. Owns the residual and, between the two calls, a copy of c.
//
//   Stage:  e <- beta e + delta;  u = e, scaled to L2 norm max_norm if longer;  c = encode(u)
//   Settle(applied): e <- u - decode(c) if c was applied, else e stays, so that the next
//           contribution carries this one too.
class ErrorFeedback {
 public:
  // `codec` must outlive it. kInvalidArgument for options out of range, kResourceExhausted when
  // memory lacks. The residual starts as zeros.
  static absl::StatusOr<ErrorFeedback> Create(uint64_t num_params, const Codec* codec,
                                              const ErrorFeedbackOptions& options);

  // Encodes the contribution of `delta`, [num_params] float32, to `packed`, which is
  // codec->PackedSize(num_params) long. kInvalidArgument, with the residual unchanged, when delta
  // is not finite or the sum with the residual is not; kFailedPrecondition before Settle. The source
  // is asked for every element twice; its errors end the call, the second time with a spoilt
  // residual.
  // `rounding_seed` is for a codec that rounds stochastically.
  absl::Status Stage(DeltaSource delta, absl::Span<uint8_t> packed, uint64_t rounding_seed = 0);
  absl::Status Stage(absl::Span<const float> delta, absl::Span<uint8_t> packed, uint64_t rounding_seed = 0);

  // Ends what Stage began. kFailedPrecondition when nothing is staged.
  absl::Status Settle(bool applied);

  // What the next contribution will carry, [num_params]: to be saved with the node's state. While
  // a contribution is staged this is e, with its delta in it.
  absl::Span<const float> residual() const { return residual_.values(); }

  // Puts back elements `first` and on of a saved residual, and drops anything staged.
  // kInvalidArgument, with no change, when there are not so many or they are not finite.
  absl::Status Restore(uint64_t first, absl::Span<const float> residual);

  // Goes on with another codec, which must outlive it, or other options. Errors as Create's;
  // kFailedPrecondition while something is staged.
  absl::Status Use(const Codec* codec, const ErrorFeedbackOptions& options);

  bool staged() const { return is_staged_; }

  // L2 norm of e before clipping, at the last Stage.
  double last_norm() const { return residual_.last_norm(); }

 private:
  ErrorFeedback(const Codec* codec, Residual residual) : codec_(codec), residual_(std::move(residual)) {}

  const Codec* codec_;
  Residual residual_;
  std::vector<uint8_t> sent_;  // c, while it is staged
  bool is_staged_ = false;
};

}  // namespace gdf::compress

#endif  // GDF_CORE_COMPRESS_ERROR_FEEDBACK_H_
