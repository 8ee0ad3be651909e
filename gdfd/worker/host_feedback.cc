#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/status_macros.h"
#include "core/compress/error_feedback.h"
#include "gdfd/worker/feedback.h"

namespace gdf::worker {
namespace {

class HostFeedback : public Feedback {
 public:
  HostFeedback(const LanguageModel& model, ParameterRange range) : model_(model), range_(range) {}

  absl::Status Use(std::unique_ptr<compress::Codec> codec, const compress::ErrorFeedbackOptions& options) override {
    if (feedback_) {
      GDF_RETURN_IF_ERROR(feedback_->Use(codec.get(), options));
    } else {
      GDF_ASSIGN_OR_RETURN(feedback_, compress::ErrorFeedback::Create(range_.count, codec.get(), options));
    }
    codec_ = std::move(codec);
    return absl::OkStatus();
  }
  const compress::Codec& codec() const override { return *codec_; }
  bool on_device() const override { return false; }

  absl::Status Stage(absl::Span<const float> theta, absl::Span<uint8_t> packed, uint64_t rounding_seed) override {
    const auto delta = [&](uint64_t first, absl::Span<float> out) {
      return model_.CopyDelta(range_.first + first, theta.subspan(first), out);
    };
    return feedback_->Stage(delta, packed, rounding_seed);
  }
  double last_norm() const override { return feedback_->last_norm(); }
  absl::Status Settle(bool applied) override { return feedback_->Settle(applied); }

  absl::Status Save(uint64_t first, absl::Span<float> out) const override {
    const absl::Span<const float> values = feedback_->residual().subspan(first, out.size());
    std::copy(values.begin(), values.end(), out.begin());
    return absl::OkStatus();
  }
  absl::Status Restore(uint64_t first, absl::Span<const float> in) override { return feedback_->Restore(first, in); }

 private:
  const LanguageModel& model_;
  const ParameterRange range_;
  std::unique_ptr<compress::Codec> codec_;  // of the feedback
  std::optional<compress::ErrorFeedback> feedback_;
};

}  // namespace

std::unique_ptr<Feedback> MakeHostFeedback(const LanguageModel& model, ParameterRange range) {
  return std::make_unique<HostFeedback>(model, range);
}

}  // namespace gdf::worker
