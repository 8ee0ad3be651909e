// The parameters of a model as one flat float32 vector under Hugging Face names: their order, first
// values, and the way in and out of safetensors. Needs no libtorch, so any program can link it.
#ifndef GDF_GDFD_WORKER_PARAMS_PARAMETERS_H_
#define GDF_GDFD_WORKER_PARAMS_PARAMETERS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/config/model_shape.h"
#include "core/tensor/layout.h"
#include "core/tensor/safetensors.h"

namespace gdf::worker {

// config::ParametersOf(shape), vocab set: all matrices, then all vectors. kInvalidArgument for a shape that ValidateModelShape refuses.
absl::StatusOr<tensor::Layout> ParameterLayout(const config::ModelShape& shape);

// Elements of the matrices, which come first in the layout: the range with weight decay.
uint64_t NumMatrixElems(const tensor::Layout& layout);

// First values: embeddings and matrices normal with standard deviation 0.02, projections into the
// residual stream 0.02 / sqrt(2 * layers) (GPT-2), norms 1, biases 0. The same bits on every
// machine. `out`: [num_params] of ParameterLayout(shape).
absl::Status InitParameters(const config::ModelShape& shape, uint64_t seed, absl::Span<float> out);

// Reads every parameter out of the files of one model (F32, F16, BF16 or F64), by name. The prefix
// "transformer." or "model." may be missing, as in files saved without the head. kInvalidArgument:
// a parameter is missing, comes twice or has another shape, or a file holds a tensor that this
// model does not have (stored masks and a tied head excepted; so are biases of a GPT-2 without
// biases when they are all zero). `out`: [num_params] of ParameterLayout(shape).
absl::Status ReadParameters(const config::ModelShape& shape,
                            absl::Span<const tensor::SafetensorsView> files,
                            absl::Span<float> out);

// The tensors to write for `transformers`: those of ParameterLayout(shape), followed by tensors
// that are all zero: the biases that its GPT-2 always has, when the model has none.
absl::StatusOr<tensor::Layout> ExportLayout(const config::ModelShape& shape);

// Writes model.safetensors as `dtype` (kF32, kBF16 or kF16) through `sink`: ExportLayout(shape)
// with `parameters`, [num_params], and zeros after them. Errors of SafetensorsWriter.
absl::Status WriteParameters(const config::ModelShape& shape, absl::Span<const float> parameters,
                             tensor::DType dtype, tensor::SafetensorsWriter::Sink sink);

}  // namespace gdf::worker

#endif  // GDF_GDFD_WORKER_PARAMS_PARAMETERS_H_
