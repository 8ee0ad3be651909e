#include "gdfd/worker/language_model.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/rng.h"
#include "core/base/status_macros.h"
#include "gdfd/worker/host_view.h"
#include "gdfd/worker/model/decoder.h"
#include "gdfd/worker/params/parameters.h"
#include "gdfd/worker/torch_guard.h"

namespace gdf::worker {
namespace {

// Activations of one step are freed and asked for again in the next. Below this size they stay in
// the heap, so that their pages are not unmapped and faulted in again each time.
constexpr int kKeepBytes = 256 << 20;

at::Tensor IdTensor(absl::Span<const int32_t> ids, const at::Tensor& like) {
  at::Tensor tensor = at::empty({1, static_cast<int64_t>(ids.size())}, at::kLong);
  std::copy(ids.begin(), ids.end(), tensor.data_ptr<int64_t>());
  return tensor.to(like.device());
}

std::vector<float> ToVector(const at::Tensor& logits) {
  const at::Tensor host = logits.cpu().contiguous();
  return std::vector<float>(host.data_ptr<float>(), host.data_ptr<float>() + host.numel());
}

// Draws an id with probability proportional to exp(logit / temperature), out of the top_k largest.
int32_t Sample(absl::Span<const float> logits, const GenerateOptions& options, SeededRng& rng) {
  if (options.temperature == 0) {
    return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  }
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  size_t kept = order.size();
  if (options.top_k > 0) kept = std::min(kept, static_cast<size_t>(options.top_k));
  std::partial_sort(order.begin(), order.begin() + kept, order.end(), [&](int32_t a, int32_t b) {
    return logits[a] != logits[b] ? logits[a] > logits[b] : a < b;
  });
  std::vector<double> upto(kept);
  double sum = 0;
  for (size_t i = 0; i < kept; ++i) {
    sum += std::exp((logits[order[i]] - logits[order[0]]) / options.temperature);
    upto[i] = sum;
  }
  const double drawn = rng.Unit() * sum;
  const size_t at = std::upper_bound(upto.begin(), upto.end(), drawn) - upto.begin();
  return order[std::min(at, kept - 1)];
}

}  // namespace

absl::Status WarmUpLibtorch() {
  return GuardTorch("starting libtorch", [] {
    at::set_num_threads(1);
    const at::Tensor square = at::ones({64, 64});
    at::gelu(at::softmax(at::matmul(square, square), 1));
  });
}

absl::StatusOr<std::unique_ptr<LanguageModel>> LanguageModel::Create(const ModelOptions& options) {
  GDF_ASSIGN_OR_RETURN(tensor::Layout layout, ParameterLayout(options.shape));
  if (options.threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the worker needs at least one thread, got ", options.threads));
  }
  mallopt(M_MMAP_THRESHOLD, kKeepBytes);
  mallopt(M_TRIM_THRESHOLD, kKeepBytes);
  std::unique_ptr<LanguageModel> model(new LanguageModel(options, std::move(layout)));
  GDF_RETURN_IF_ERROR(GuardTorch("creating the model", [&] {
    at::set_num_threads(options.threads);
    model->decoder_ = std::make_unique<Decoder>(model->options_, model->layout_);
  }));
  return model;
}

LanguageModel::LanguageModel(const ModelOptions& options, tensor::Layout layout)
    : options_(options), layout_(std::move(layout)) {}

LanguageModel::~LanguageModel() = default;

absl::Status LanguageModel::CheckRange(uint64_t first, size_t count) const {
  if (first <= num_params() && count <= num_params() - first) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("asked for ", count, " parameters from ", first,
                                                 " on, the model has ", num_params()));
}

absl::Status LanguageModel::CopyParameters(uint64_t first, absl::Span<float> values) const {
  GDF_RETURN_IF_ERROR(CheckRange(first, values.size()));
  return GuardTorch("reading parameters", [&] {
    HostView(values).copy_(decoder_->parameters().narrow(
        0, static_cast<int64_t>(first), static_cast<int64_t>(values.size())));
  });
}

absl::Status LanguageModel::CopyDelta(uint64_t first, absl::Span<const float> theta, absl::Span<float> out) const {
  GDF_RETURN_IF_ERROR(CopyParameters(first, out));
  for (size_t i = 0; i < out.size(); ++i) out[i] = theta[i] - out[i];
  return absl::OkStatus();
}

absl::Status LanguageModel::SetParameters(absl::Span<const float> values) {
  if (values.size() != num_params()) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", values.size(), " parameters, the model has ", num_params()));
  }
  return MixParameters(0, values, 0);
}

absl::Status LanguageModel::MixParameters(uint64_t first, absl::Span<const float> values,
                                          double mixing) {
  GDF_RETURN_IF_ERROR(CheckRange(first, values.size()));
  return GuardTorch("setting parameters", [&] {
    at::Tensor part = decoder_->parameters().narrow(0, static_cast<int64_t>(first),
                                                    static_cast<int64_t>(values.size()));
    const at::Tensor given = HostView(values);
    if (mixing == 0) {
      part.copy_(given);
    } else {
      part.mul_(mixing).add_(given.to(part.device()), 1 - mixing);
    }
    decoder_->ParametersChanged();
  });
}

absl::Status LanguageModel::CheckIds(absl::Span<const int32_t> ids) const {
  if (ids.empty()) return absl::InvalidArgumentError("the prompt has no tokens: give at least one");
  const int64_t vocab = config::Vocab(options_.shape);
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab) {
      return absl::InvalidArgumentError(absl::StrCat("token id ", id, " is outside the model's ",
                                                     vocab, ": another tokenizer's?"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> LanguageModel::NextLogits(absl::Span<const int32_t> ids) {
  GDF_RETURN_IF_ERROR(CheckIds(ids));
  const int64_t length = static_cast<int64_t>(ids.size());
  if (length > config::Context(options_.shape)) {
    return absl::InvalidArgumentError(absl::StrCat(length, " tokens do not fit the context of ",
                                                   config::Context(options_.shape)));
  }
  std::vector<float> logits;
  GDF_RETURN_IF_ERROR(GuardTorch("computing logits", [&] {
    KvCache cache = decoder_->MakeCache(length);
    logits = ToVector(decoder_->NextLogits(IdTensor(ids, decoder_->parameters()), cache));
  }));
  return logits;
}

absl::StatusOr<std::vector<int32_t>> LanguageModel::Generate(absl::Span<const int32_t> prompt,
                                                             const GenerateOptions& options) {
  GDF_RETURN_IF_ERROR(CheckIds(prompt));
  if (options.max_new_tokens < 0 || options.top_k < 0 || !(options.temperature >= 0)) {
    return absl::InvalidArgumentError(
        "the number of new tokens, temperature and top-k must not be negative");
  }
  const int64_t context = config::Context(options_.shape);
  const int64_t capacity =
      std::min(context, static_cast<int64_t>(prompt.size()) + options.max_new_tokens);
  std::vector<int32_t> text(prompt.begin(), prompt.end());
  SeededRng rng(options.seed);
  GDF_RETURN_IF_ERROR(GuardTorch("generating text", [&] {
    KvCache cache = decoder_->MakeCache(capacity);
    size_t unread = text.size();  // ids at the end of `text` that are not in the cache
    for (int64_t i = 0; i < options.max_new_tokens; ++i) {
      if (cache.length + static_cast<int64_t>(unread) > context) {
        cache.length = 0;
        unread = std::min<size_t>(text.size(), std::max<int64_t>(1, context / 2));
      }
      const auto ids = absl::MakeConstSpan(text).last(unread);
      const at::Tensor logits = decoder_->NextLogits(IdTensor(ids, decoder_->parameters()), cache);
      const int32_t id = Sample(ToVector(logits), options, rng);
      if (id == options.stop_id) break;
      text.push_back(id);
      unread = 1;
      if (options.on_token && !options.on_token(id)) break;
    }
  }));
  return std::vector<int32_t>(text.begin() + static_cast<int64_t>(prompt.size()), text.end());
}

}  // namespace gdf::worker
