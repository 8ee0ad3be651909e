// The trained parameters of a model: their names, shapes and order.
#ifndef GDF_CORE_CONFIG_MODEL_PARAMETERS_H_
#define GDF_CORE_CONFIG_MODEL_PARAMETERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/config/model_shape.h"

namespace gdf::config {

struct ParameterShape {
  std::string name;
  std::vector<int64_t> dims;  // of a matrix [rows, columns], of a vector [length]
};

// All matrices, then all vectors (biases and norms), so that weight decay applies to one range. Names, orientation and
// values are those of `transformers`: GPT-2's linear layers are stored [in, out], Llama's [out, in]. What is multiplied
// together lies together: Llama's q, k, v and gate, up. `shape` must be valid, its vocabulary set.
std::vector<ParameterShape> ParametersOf(const ModelShape& shape);

}  // namespace gdf::config

#endif  // GDF_CORE_CONFIG_MODEL_PARAMETERS_H_
