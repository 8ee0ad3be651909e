#include <cstddef>
#include <string>
#include <variant>

#include "core/base/status_macros.h"
#include "core/config/model_parameters.h"
#include "gdfd/worker/params/parameters.h"

namespace gdf::worker {

absl::StatusOr<tensor::Layout> ParameterLayout(const config::ModelShape& shape) {
  GDF_RETURN_IF_ERROR(config::ValidateModelShape(shape));
  if (config::Vocab(shape) < 1) {
    return absl::InvalidArgumentError("the model's vocabulary is not set: give the tokenizer's size");
  }
  tensor::Layout layout;
  for (const config::ParameterShape& parameter : config::ParametersOf(shape)) {
    GDF_RETURN_IF_ERROR(layout.Add(parameter.name, parameter.dims));
  }
  return layout;
}

uint64_t NumMatrixElems(const tensor::Layout& layout) {
  uint64_t elems = 0;
  for (const tensor::TensorInfo& t : layout.tensors()) {
    if (t.shape.size() > 1) elems += t.num_elems;
  }
  return elems;
}

absl::StatusOr<tensor::Layout> ExportLayout(const config::ModelShape& shape) {
  GDF_ASSIGN_OR_RETURN(tensor::Layout layout, ParameterLayout(shape));
  const auto* gpt2 = std::get_if<config::Gpt2Shape>(&shape);
  if (gpt2 == nullptr || gpt2->bias) return layout;
  config::Gpt2Shape with_bias = *gpt2;
  with_bias.bias = true;
  GDF_ASSIGN_OR_RETURN(const tensor::Layout full, ParameterLayout(with_bias));
  for (const tensor::TensorInfo& t : full.tensors()) {
    if (layout.Find(t.name) == nullptr) GDF_RETURN_IF_ERROR(layout.Add(t.name, t.shape));
  }
  return layout;
}

}  // namespace gdf::worker
