#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/encoding.h"
#include "core/base/status_macros.h"
#include "core/tensor/flat_buffer.h"
#include "core/tensor/safetensors.h"

namespace gdf::tensor {
namespace {

constexpr size_t kHeaderAlignment = 8;   // of the data, as the reference writer does
constexpr size_t kStagingBytes = 65536;  // converted per call of the sink

// The header's JSON with its length before it and spaces behind it.
absl::StatusOr<std::string> MakeHeader(const Layout& layout, DType dtype,
                                       const std::map<std::string, std::string>& metadata) {
  auto root = nlohmann::ordered_json::object();
  if (!metadata.empty()) root["__metadata__"] = metadata;
  for (const TensorInfo& tensor : layout.tensors()) {
    const uint64_t begin = tensor.offset_elems * DTypeSize(dtype);
    const uint64_t end = begin + tensor.num_elems * DTypeSize(dtype);
    root[tensor.name] = {
        {"dtype", DTypeName(dtype)}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  std::string text = root.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  if (text.size() > SafetensorsView::kMaxHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "safetensors: a header of ", text.size(), " bytes for ", layout.tensors().size(),
        " tensors, expected at most ", SafetensorsView::kMaxHeaderBytes));
  }
  std::string length(sizeof(uint64_t), '\0');
  for (size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i));
  }
  return length + text;
}

}  // namespace

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Start(
    const Layout& layout, DType dtype, Sink sink,
    const std::map<std::string, std::string>& metadata) {
  if (dtype != DType::kF32 && dtype != DType::kF16 && dtype != DType::kBF16) {
    return absl::InvalidArgumentError(absl::StrCat("safetensors: cannot write parameters as ",
                                                   DTypeName(dtype),
                                                   ", expected F32, F16 or BF16"));
  }
  GDF_ASSIGN_OR_RETURN(const std::string header, MakeHeader(layout, dtype, metadata));
  SafetensorsWriter writer(dtype, std::move(sink), layout.num_params());
  writer.file_bytes_ = header.size() + layout.num_params() * DTypeSize(dtype);
  GDF_RETURN_IF_ERROR(writer.sink_(gdf::AsBytes(header)));
  return writer;
}

absl::Status SafetensorsWriter::Append(absl::Span<const float> values) {
  if (values.size() > num_params_ - written_) {
    return absl::InvalidArgumentError(absl::StrCat("safetensors: ", values.size(), " values after ",
                                                   written_, ", expected ", num_params_,
                                                   " in all"));
  }
  written_ += values.size();
  if (dtype_ == DType::kF32) {
    return values.empty() ? absl::OkStatus() : sink_(tensor::AsBytes(values));
  }
  std::vector<uint8_t> staging(std::min(kStagingBytes, values.size() * DTypeSize(dtype_)));
  while (!values.empty()) {
    const size_t count = std::min(values.size(), kStagingBytes / DTypeSize(dtype_));
    const absl::Span<uint8_t> bytes(staging.data(), count * DTypeSize(dtype_));
    GDF_RETURN_IF_ERROR(ConvertFromF32(values.first(count), dtype_, bytes));
    GDF_RETURN_IF_ERROR(sink_(bytes));
    values.remove_prefix(count);
  }
  return absl::OkStatus();
}

absl::Status SafetensorsWriter::Finish() const {
  if (written_ == num_params_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("safetensors: the file ends after ", written_,
                                                    " values, expected ", num_params_));
}

}  // namespace gdf::tensor
