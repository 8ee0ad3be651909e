#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "gdfd/worker/params/parameters.h"

namespace gdf::worker {

absl::Status WriteParameters(const config::ModelShape& shape, absl::Span<const float> parameters,
                             tensor::DType dtype, tensor::SafetensorsWriter::Sink sink) {
  GDF_ASSIGN_OR_RETURN(const tensor::Layout trained, ParameterLayout(shape));
  GDF_ASSIGN_OR_RETURN(const tensor::Layout layout, ExportLayout(shape));
  if (parameters.size() != trained.num_params()) {
    return absl::InvalidArgumentError(absl::StrCat("got ", parameters.size(),
                                                   " parameters, the model has ",
                                                   trained.num_params()));
  }
  GDF_ASSIGN_OR_RETURN(auto writer,
                       tensor::SafetensorsWriter::Start(layout, dtype, std::move(sink)));
  GDF_RETURN_IF_ERROR(writer.Append(parameters));
  const std::vector<float> zeros(layout.num_params() - trained.num_params());
  GDF_RETURN_IF_ERROR(writer.Append(zeros));
  return writer.Finish();
}

}  // namespace gdf::worker
