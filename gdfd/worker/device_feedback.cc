#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/tensor/finite.h"
#include "gdfd/worker/feedback.h"
#include "gdfd/worker/host_view.h"
#include "gdfd/worker/model/decoder.h"
#include "gdfd/worker/torch_guard.h"

namespace gdf::worker {
namespace {

template <typename T>
cuda::DeviceMemory MemoryOf(const at::Tensor& tensor) {
  return cuda::DeviceMemory::Borrow(tensor.data_ptr<T>(), tensor.nbytes());
}

// The residual lies beside the memory that libtorch keeps for training, so that no step misses it; what is needed while a
// delta is packed comes out of that memory, where the activations of a step are otherwise. The arithmetic is
// compress::Residual's, operation by operation.
class DeviceFeedback : public Feedback {
 public:
  DeviceFeedback(LanguageModel& model, ParameterRange range, std::shared_ptr<cuda::Session> session,
                 cuda::DeviceMemory residual, uint64_t piece)
      : model_(model), range_(range), session_(std::move(session)), memory_(std::move(residual)), piece_(piece) {}

  absl::Status Init() {
    return GuardTorch("a residual on the GPU", [this] {
      residual_ = at::from_blob(memory_.data(), {static_cast<int64_t>(range_.count)}, Parameters().options());
      residual_.zero_();
    });
  }

  absl::Status Use(std::unique_ptr<compress::Codec> codec, const compress::ErrorFeedbackOptions& options) override {
    if (staged_) return absl::FailedPreconditionError("error feedback: a delta is staged");
    GDF_RETURN_IF_ERROR(compress::CheckOptions(options));
    GDF_CHECK(piece_ % codec->block() == 0);
    codec_ = std::move(codec);
    options_ = options;
    return absl::OkStatus();
  }
  const compress::Codec& codec() const override { return *codec_; }
  bool on_device() const override { return true; }

  absl::Status Stage(absl::Span<const float> theta, absl::Span<uint8_t> packed, uint64_t rounding_seed) override {
    if (staged_) return absl::FailedPreconditionError("error feedback: a delta is staged");
    GDF_CHECK(theta.size() == range_.count && packed.size() == codec_->PackedSize(range_.count));
    at::Tensor next;
    double norm = 0;
    GDF_RETURN_IF_ERROR(GuardTorch("taking a delta on the GPU", [&] { next = Sum(theta, &norm); }));
    if (!std::isfinite(norm)) {  // as it is exactly when a value is not: squares of float32 fit in double
      return absl::InvalidArgumentError("delta plus residual is not finite; lower the learning rate");
    }
    const bool clips = options_.max_norm > 0.0 && norm > options_.max_norm;
    const float scale = clips ? static_cast<float>(options_.max_norm / norm) : 1.0f;
    absl::Status encoded;
    GDF_RETURN_IF_ERROR(GuardTorch("packing a delta on the GPU", [&] {
      encoded = EachPiece([&](uint64_t first, uint64_t count) {
        const at::Tensor u = scale == 1.0f ? Piece(next, first, count) : Piece(next, first, count).mul(scale);
        const at::Tensor part = PackedPiece(HostView(packed), first, count);
        const at::Tensor made = at::empty(part.sizes(), u.options().dtype(at::kByte));
        cuda::DeviceMemory into = MemoryOf<uint8_t>(made);
        const absl::Status done = session_->Encode(*codec_, MemoryOf<float>(u), count, into, {rounding_seed, first});
        if (done.ok()) part.copy_(made);
        return done;
      });
    }));
    GDF_RETURN_IF_ERROR(encoded);
    GDF_RETURN_IF_ERROR(GuardTorch("keeping the residual", [&] { residual_.copy_(next); }));
    sent_.assign(packed.begin(), packed.end());
    staged_ = true;
    scale_ = scale;
    last_norm_ = norm;
    return absl::OkStatus();
  }
  double last_norm() const override { return last_norm_; }

  absl::Status Settle(bool applied) override {
    if (!staged_) return absl::FailedPreconditionError("error feedback: nothing is staged");
    absl::Status taken;
    if (applied) {
      GDF_RETURN_IF_ERROR(GuardTorch("settling a delta on the GPU", [&] {
        taken = EachPiece([&](uint64_t first, uint64_t count) {
          at::Tensor u = Piece(residual_, first, count);
          if (scale_ != 1.0f) u.mul_(scale_);
          cuda::DeviceMemory into = MemoryOf<float>(u);
          const at::Tensor part = PackedPiece(HostView(absl::MakeSpan(sent_)), first, count).to(u.device());
          return session_->DecodeAccumulate(*codec_, MemoryOf<uint8_t>(part), count, -1.0f, into);
        });
      }));
    }
    Drop();
    return taken;
  }

  absl::Status Save(uint64_t first, absl::Span<float> out) const override {
    return GuardTorch("reading the residual", [&] { HostView(out).copy_(Piece(residual_, first, out.size())); });
  }

  absl::Status Restore(uint64_t first, absl::Span<const float> in) override {
    if (first > range_.count || in.size() > range_.count - first) {
      return absl::InvalidArgumentError("error feedback: a saved residual of another model");
    }
    GDF_RETURN_IF_ERROR(tensor::CheckFinite("saved residual", in));
    Drop();
    return GuardTorch("restoring the residual", [&] { Piece(residual_, first, in.size()).copy_(HostView(in)); });
  }

 private:
  void Drop() {
    sent_ = {};
    staged_ = false;
  }
  at::Tensor Parameters() const { return Piece(model_.decoder().parameters(), range_.first, range_.count); }

  static at::Tensor Piece(const at::Tensor& flat, uint64_t first, uint64_t count) {
    return flat.narrow(0, static_cast<int64_t>(first), static_cast<int64_t>(count));
  }
  at::Tensor PackedPiece(const at::Tensor& packed, uint64_t first, uint64_t count) const {
    const uint64_t at = codec_->PackedSize(first);
    return Piece(packed, at, codec_->PackedSize(first + count) - at);
  }
  // work(first, count) of each piece, to the first error.
  template <typename Work>
  absl::Status EachPiece(Work work) const {
    for (uint64_t first = 0; first < range_.count; first += piece_) {
      GDF_RETURN_IF_ERROR(work(first, std::min(piece_, range_.count - first)));
    }
    return absl::OkStatus();
  }

  // beta e + (theta - parameters), and its L2 norm.
  at::Tensor Sum(absl::Span<const float> theta, double* norm) const {
    const at::Tensor parameters = Parameters();
    at::Tensor sum = residual_.mul(options_.beta);
    at::Tensor squares = at::zeros({}, sum.options().dtype(at::kDouble));
    for (uint64_t first = 0; first < range_.count; first += piece_) {
      const uint64_t count = std::min(piece_, range_.count - first);
      const at::Tensor given = HostView(theta.subspan(first, count)).to(sum.device());
      at::Tensor part = Piece(sum, first, count);
      part.add_(given.sub(Piece(parameters, first, count)));
      squares.add_(part.to(at::kDouble).square_().sum());
    }
    *norm = std::sqrt(squares.item<double>());
    return sum;
  }

  LanguageModel& model_;
  const ParameterRange range_;
  const std::shared_ptr<cuda::Session> session_;
  const cuda::DeviceMemory memory_;  // of the residual
  const uint64_t piece_;
  std::unique_ptr<compress::Codec> codec_;
  compress::ErrorFeedbackOptions options_;
  at::Tensor residual_;        // [count] float32
  std::vector<uint8_t> sent_;  // the packed delta, while it is staged
  bool staged_ = false;
  float scale_ = 1.0f;   // of what was packed, to the residual
  double last_norm_ = 0.0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Feedback>> MakeDeviceFeedback(LanguageModel& model, ParameterRange range,
                                                             std::shared_ptr<cuda::Session> session, uint64_t piece) {
  GDF_ASSIGN_OR_RETURN(cuda::DeviceMemory residual, session->Allocate(range.count * sizeof(float)));
  auto feedback = std::make_unique<DeviceFeedback>(model, range, std::move(session), std::move(residual), piece);
  GDF_RETURN_IF_ERROR(feedback->Init());
  return feedback;
}

}  // namespace gdf::worker
