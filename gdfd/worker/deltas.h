// What a session keeps of the rounds for each fragment of the parameters: θ, from which its delta is taken, and the
// residual of its error feedback. Free of libtorch's headers.
#ifndef GDF_GDFD_WORKER_DELTAS_H_
#define GDF_GDFD_WORKER_DELTAS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/compress/low_rank_feedback.h"
#include "core/train/fragments.h"
#include "core/train/shared_segment.h"
#include "core/train/worker_session.h"
#include "gdfd/worker/feedback.h"
#include "gdfd/worker/language_model.h"

namespace gdf::worker {

// Not thread-safe.
class Deltas {
 public:
  // `model` must outlive it. With `session`, of the device of its parameters, deltas are packed there while it has memory
  // that training leaves; those that go as factors, and without it all, on the host.
  Deltas(LanguageModel& model, const train::Fragments& fragments, std::shared_ptr<cuda::Session> session = nullptr)
      : model_(model), fragments_(fragments), session_(std::move(session)), parts_(fragments.count()) {}

  const train::Fragments& fragments() const { return fragments_; }

  // `theta`, as long as the fragment, is kept until its Stage; of the local parameters there the share `mixing` stays.
  absl::Status Apply(uint64_t fragment, train::SharedSegment theta, double mixing);
  // Every fragment was applied.
  bool complete() const;
  // The local parameters are no longer θ.
  void StepsTaken();

  // Packs the delta of request.fragment into the beginning of `window`; `norm`: its L2 norm. kFailedPrecondition: it is
  // not finite, was not applied since it was staged last, or another is not settled, or the window is too small.
  // With request.factors: those of the pass, by what `window` begins with; a second pass ends nothing and has no norm.
  absl::Status Stage(const train::EmitRequest& request, absl::Span<uint8_t> window, double* norm);
  // Ends what the Stage of that round began.
  absl::Status Settle(RoundId round, train::Settlement settlement);

  // Does `work` with θ in the model, wherever it is kept.
  absl::Status AtTheta(absl::FunctionRef<absl::Status()> work);

  // The residuals as one buffer of [num_params] float32; zeros where nothing was staged yet.
  absl::Status SaveResiduals(uint64_t first, absl::Span<float> out) const;
  // Elements `first` and on; drops what is staged. `rounds`: of the job.
  absl::Status RestoreResiduals(uint64_t first, absl::Span<const float> in, const config::RoundsSpec& rounds);
  void ForgetResiduals();

 private:
  struct Part {
    std::optional<train::SharedSegment> theta;  // from Apply to Stage
    bool applied = false;                       // ever
    bool drifted = false;                       // locally, from θ
    std::unique_ptr<Feedback> feedback;
    std::optional<compress::LowRankFeedback> low_rank;  // instead, in a job that sends factors

    // Zeros while there is neither.
    absl::Status SaveResidual(uint64_t first, absl::Span<float> out) const;
  };
  struct Staged {
    RoundId round;
    uint64_t fragment = 0;
  };

  absl::Status CheckFragment(uint64_t fragment) const;
  absl::Status Use(uint64_t fragment, const compress::CodecSpec& codec, const compress::ErrorFeedbackOptions& options);
  absl::Status UseFactors(uint64_t fragment, uint32_t rank, const compress::ErrorFeedbackOptions& options);
  ParameterRange RangeOf(uint64_t fragment) const;
  // Its residual goes from the feedback that is, with nothing staged, to `to`.
  absl::Status Move(uint64_t fragment, std::unique_ptr<Feedback> to, const compress::CodecSpec& codec,
                    const compress::ErrorFeedbackOptions& options);
  void LeaveDevice(const absl::Status& why);
  absl::Status StagePacked(Part& part, const train::EmitRequest& request, const compress::ErrorFeedbackOptions& options,
                           absl::Span<uint8_t> window, double* norm);
  absl::Status StageFactors(Part& part, absl::Span<float> window, double* norm);
  absl::Status Project(const train::EmitRequest& request, absl::Span<float> window);

  LanguageModel& model_;
  const train::Fragments fragments_;
  std::shared_ptr<cuda::Session> session_;
  std::vector<Part> parts_;
  std::optional<Staged> staged_;  // and not settled
};

}  // namespace gdf::worker

#endif  // GDF_GDFD_WORKER_DELTAS_H_
