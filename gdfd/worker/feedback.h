// Error feedback of one fragment's packed deltas (core/compress/error_feedback.h), wherever its residual lives: in the
// host's memory, or on the GPU beside the parameters. The bytes are the same. Free of libtorch's headers.
#ifndef GDF_GDFD_WORKER_FEEDBACK_H_
#define GDF_GDFD_WORKER_FEEDBACK_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/compress/codec.h"
#include "core/compress/residual.h"
#include "cuda/loader.h"
#include "gdfd/worker/language_model.h"

namespace gdf::worker {

// Parameters of a model that one delta is of.
struct ParameterRange {
  uint64_t first = 0;
  uint64_t count = 0;
};

// Not thread-safe. Use() first, and again for another codec or other options.
class Feedback {
 public:
  virtual ~Feedback() = default;

  // kInvalidArgument for options out of range; kFailedPrecondition while a delta is staged; kResourceExhausted.
  virtual absl::Status Use(std::unique_ptr<compress::Codec> codec, const compress::ErrorFeedbackOptions& options) = 0;
  virtual const compress::Codec& codec() const = 0;
  virtual bool on_device() const = 0;

  // Packs `theta` minus the model's parameters, [count] float32, and what was lost before. `packed` is as long as the
  // codec says. kInvalidArgument, kResourceExhausted: the residual is as it was; kFailedPrecondition before Settle.
  virtual absl::Status Stage(absl::Span<const float> theta, absl::Span<uint8_t> packed, uint64_t rounding_seed) = 0;
  // L2 norm of what was staged last, before clipping.
  virtual double last_norm() const = 0;
  virtual absl::Status Settle(bool applied) = 0;

  // Elements `first` and on of the residual, which exist.
  virtual absl::Status Save(uint64_t first, absl::Span<float> out) const = 0;
  // Puts back what Save gave; drops what is staged. kInvalidArgument, with no change, when it is not finite or not all
  // of these elements exist.
  virtual absl::Status Restore(uint64_t first, absl::Span<const float> in) = 0;
};

// `model` must outlive them.
std::unique_ptr<Feedback> MakeHostFeedback(const LanguageModel& model, ParameterRange range);

// On the device of the model's parameters, whose `session` it is: θ goes there, packed bytes come back. `piece`, a multiple
// of every codec's block: values that are worked on together. kResourceExhausted when its memory has no room for a residual
// beside what libtorch holds of it: so to be made when steps have been taken.
inline constexpr uint64_t kDevicePiece = uint64_t{1} << 22;
absl::StatusOr<std::unique_ptr<Feedback>> MakeDeviceFeedback(LanguageModel& model, ParameterRange range,
                                                             std::shared_ptr<cuda::Session> session,
                                                             uint64_t piece = kDevicePiece);

}  // namespace gdf::worker

#endif  // GDF_GDFD_WORKER_FEEDBACK_H_
