// A GPT-2 or Llama model in libtorch: parameters in one flat float32 vector, forward pass, sampling.
// Free of libtorch's headers, so that what includes it compiles fast.
//
//   GDF_ASSIGN_OR_RETURN(auto model, LanguageModel::Create({.shape = shape, .threads = 2}));
//   GDF_RETURN_IF_ERROR(model->SetParameters(theta));
//   GDF_ASSIGN_OR_RETURN(auto ids, model->Generate(prompt, {.max_new_tokens = 64}));
#ifndef GDF_GDFD_WORKER_LANGUAGE_MODEL_H_
#define GDF_GDFD_WORKER_LANGUAGE_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/config/job_spec.h"
#include "core/config/model_shape.h"
#include "core/tensor/layout.h"

namespace gdf::worker {

class Decoder;

// Has libtorch look up now what it looks up once in files of the system (the kind of processor
// decides which kernels it takes): before a sandbox forbids that. Starts no thread.
absl::Status WarmUpLibtorch();

struct ModelOptions {
  config::ModelShape shape;  // vocab is set
  bool on_gpu = false;       // CUDA's devices from 0 on, which GpuLibraries has opened (gpu.h)
  int devices = 1;           // that train together (replicas.h); in tests, several on the CPU
  // Matrix products and attention in bf16 with float32 parameters, norms and residual stream.
  bool bf16 = false;
  bool recompute = false;  // activations of each block in the backward pass, to save memory
  int threads = 1;         // CPU threads of libtorch, for the whole process
};

struct GenerateOptions {
  int64_t max_new_tokens = 100;
  double temperature = 0;  // 0: the most probable token each time
  int64_t top_k = 0;       // only the k most probable tokens; 0: all
  uint64_t seed = 0;       // the same seed gives the same text
  std::optional<int32_t> stop_id = {};         // ends the text; it is not returned
  std::function<bool(int32_t)> on_token = {};  // each new id as it comes; false ends the text
};

// Not thread-safe. Results on a CPU are bit-identical for equal inputs and thread counts.
// Every method: kResourceExhausted when memory runs out, kInternal for other errors of libtorch.
class LanguageModel {
 public:
  // All parameters zero. kInvalidArgument for a shape that ValidateModelShape refuses.
  static absl::StatusOr<std::unique_ptr<LanguageModel>> Create(const ModelOptions& options);

  ~LanguageModel();

  // Order of the flat parameters: the one of ParameterLayout(shape).
  const tensor::Layout& layout() const { return layout_; }
  uint64_t num_params() const { return layout_.num_params(); }
  const ModelOptions& options() const { return options_; }

  // Copies parameters `first` and on to `values`, and all of them from `values`: float32 in host
  // memory. kInvalidArgument when there are not so many, or the length is another.
  absl::Status CopyParameters(uint64_t first, absl::Span<float> values) const;
  // `theta` minus parameters `first` and on, as many as `out` takes. Errors as CopyParameters'.
  absl::Status CopyDelta(uint64_t first, absl::Span<const float> theta, absl::Span<float> out) const;
  absl::Status SetParameters(absl::Span<const float> values);
  // Parameters `first` and on become (1 − mixing) · values + mixing · what they are. Errors as CopyParameters'.
  absl::Status MixParameters(uint64_t first, absl::Span<const float> values, double mixing);

  // [vocab] logits of the position after the last of `ids`. kInvalidArgument when `ids` is empty,
  // longer than the context, or holds an id outside the vocabulary.
  absl::StatusOr<std::vector<float>> NextLogits(absl::Span<const int32_t> ids);

  // Continues `prompt` with a key/value cache; gives the new ids only. When prompt and continuation
  // outgrow the context, the last half of it is kept and read again. kInvalidArgument when
  // `prompt` is empty or holds an id outside the vocabulary, or an option is negative.
  absl::StatusOr<std::vector<int32_t>> Generate(absl::Span<const int32_t> prompt,
                                                const GenerateOptions& options);

  // The libtorch side, for Trainer and tests.
  Decoder& decoder() { return *decoder_; }

 private:
  LanguageModel(const ModelOptions& options, tensor::Layout layout);

  absl::Status CheckRange(uint64_t first, size_t count) const;
  absl::Status CheckIds(absl::Span<const int32_t> ids) const;

  ModelOptions options_;
  tensor::Layout layout_;
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace gdf::worker

#endif  // GDF_GDFD_WORKER_LANGUAGE_MODEL_H_
