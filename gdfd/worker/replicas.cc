#include "gdfd/worker/replicas.h"

#include <ATen/ATen.h>

#include <string>

namespace gdf::worker {
namespace {

std::vector<float*> BuffersOf(const std::vector<at::Tensor>& tensors) {
  std::vector<float*> buffers;
  for (const at::Tensor& tensor : tensors) buffers.push_back(tensor.data_ptr<float>());
  return buffers;
}

void Require(const absl::Status& status) { TORCH_CHECK(status.ok(), std::string(status.message())); }

}  // namespace

Replicas::Replicas(LanguageModel& model, std::shared_ptr<cuda::Group> group)
    : decoders_{&model.decoder()}, group_(std::move(group)) {
  for (int device = 1; device < model.options().devices; ++device) {
    others_.push_back(std::make_unique<Decoder>(model.options(), model.layout(), device));
    decoders_.push_back(others_.back().get());
  }
}

template <typename Pass>
double Replicas::OnEach(const at::Tensor& inputs, const at::Tensor& targets, Pass pass) {
  Refresh();
  const int64_t batch = inputs.size(0), devices = static_cast<int64_t>(decoders_.size());
  std::vector<at::Tensor> losses;
  for (int64_t i = 0; i < devices; ++i) {
    const int64_t begin = batch * i / devices, count = batch * (i + 1) / devices - begin;
    if (count == 0) continue;
    Decoder& decoder = *decoders_[static_cast<size_t>(i)];
    const auto part = [&](const at::Tensor& ids) { return ids.narrow(0, begin, count).to(decoder.device()); };
    losses.push_back(pass(decoder, part(inputs), part(targets)));
  }
  double sum = 0;
  for (const at::Tensor& loss : losses) sum += loss.item<double>();
  return sum;
}

double Replicas::TrainPass(const at::Tensor& inputs, const at::Tensor& targets, double scale, GradMode mode) {
  return OnEach(inputs, targets, [&](Decoder& decoder, const at::Tensor& in, const at::Tensor& out) {
    return decoder.TrainPass(in, out, scale, mode);
  });
}

double Replicas::LossSum(const at::Tensor& inputs, const at::Tensor& targets) {
  return OnEach(inputs, targets, [](Decoder& decoder, const at::Tensor& in, const at::Tensor& out) {
    return decoder.LossSum(in, out);
  });
}

std::vector<at::Tensor> Replicas::All(const at::Tensor& (Decoder::*flat)() const) const {
  std::vector<at::Tensor> tensors;
  for (const Decoder* decoder : decoders_) tensors.push_back((decoder->*flat)());
  return tensors;
}

void Replicas::SumGradients() {
  if (others_.empty()) return;
  const std::vector<at::Tensor> all = All(&Decoder::gradients);
  if (group_ != nullptr) {
    Require(group_->Reduce(BuffersOf(all), static_cast<uint64_t>(all[0].numel())));
    return;
  }
  for (size_t i = 1; i < all.size(); ++i) all[0].add_(all[i].to(all[0].device()));
}

void Replicas::Refresh() {
  if (others_.empty() || version_ == decoders_[0]->version()) return;
  version_ = decoders_[0]->version();
  const std::vector<at::Tensor> all = All(&Decoder::parameters);
  if (group_ != nullptr) {
    Require(group_->Broadcast(BuffersOf(all), static_cast<uint64_t>(all[0].numel())));
  } else {
    for (size_t i = 1; i < all.size(); ++i) all[i].copy_(all[0]);
  }
  for (const std::unique_ptr<Decoder>& other : others_) other->ParametersChanged();
}

}  // namespace gdf::worker
