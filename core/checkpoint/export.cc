#include "core/checkpoint/export.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/tensor/safetensors.h"
#include "core/train/export_files.h"

namespace gdf::checkpoint {
namespace {

constexpr char kWeights[] = "model.safetensors";
constexpr size_t kPieceValues = size_t{1} << 18;

absl::Status AppendTheta(tensor::SafetensorsWriter& writer, absl::Span<const float> theta, uint64_t num_params) {
  for (size_t at = 0; at < theta.size(); at += kPieceValues) {
    GDF_RETURN_IF_ERROR(writer.Append(theta.subspan(at, std::min(kPieceValues, theta.size() - at))));
  }
  const std::vector<float> zeros(std::min<uint64_t>(kPieceValues, num_params - theta.size()));
  for (uint64_t left = num_params - theta.size(); left > 0;) {
    const size_t count = std::min<uint64_t>(left, zeros.size());
    GDF_RETURN_IF_ERROR(writer.Append(absl::MakeConstSpan(zeros).subspan(0, count)));
    left -= count;
  }
  return writer.Finish();
}

// The writer tells the file's length only after its header, which it hands to the sink: held back until then.
absl::Status WriteWeights(const train::ExportPlan& plan, absl::Span<const float> theta, tensor::DType dtype,
                          ExportSink& sink) {
  if (theta.size() > plan.layout.num_params()) {
    return absl::InvalidArgumentError(absl::StrCat("export: ", theta.size(), " parameters do not fit the layout of ",
                                                   plan.layout.num_params()));
  }
  std::string header;
  bool begun = false;
  const auto take = [&](absl::Span<const uint8_t> bytes) -> absl::Status {
    if (begun) return sink.Append(bytes);
    header.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return absl::OkStatus();
  };
  GDF_ASSIGN_OR_RETURN(tensor::SafetensorsWriter writer, tensor::SafetensorsWriter::Start(plan.layout, dtype, take));
  GDF_RETURN_IF_ERROR(sink.Begin(kWeights, writer.file_bytes()));
  begun = true;
  GDF_RETURN_IF_ERROR(sink.Append({reinterpret_cast<const uint8_t*>(header.data()), header.size()}));
  GDF_RETURN_IF_ERROR(AppendTheta(writer, theta, plan.layout.num_params()));
  return sink.End();
}

}  // namespace

absl::Status FolderSink::Begin(std::string_view name, uint64_t) {
  GDF_RETURN_IF_ERROR(files_.MakeFolders(folder_, 0755));
  GDF_ASSIGN_OR_RETURN(file_, files_.Create(absl::StrCat(folder_, "/", ToAbsl(name)), 0644));
  return absl::OkStatus();
}

absl::Status FolderSink::Append(absl::Span<const uint8_t> bytes) { return file_->Append(bytes); }

absl::Status FolderSink::End() {
  const absl::Status status = file_->Commit();
  file_.reset();
  return status;
}

absl::Status ExportHuggingFace(const train::ExportPlan& plan, absl::Span<const float> theta,
                               tensor::DType dtype, ExportSink& sink) {
  for (const train::ExportPlan::File& file : plan.files) {
    GDF_RETURN_IF_ERROR(train::CheckExportFile(file.name, file.contents.view()));
    GDF_RETURN_IF_ERROR(sink.Begin(file.name, file.contents.size()));
    GDF_RETURN_IF_ERROR(sink.Append(file.contents.span()));
    GDF_RETURN_IF_ERROR(sink.End());
  }
  return WriteWeights(plan, theta, dtype, sink);
}

}  // namespace gdf::checkpoint
