// Writes committed parameters as a Hugging Face folder: model.safetensors and the side files that the worker gives.
#ifndef GDF_CORE_CHECKPOINT_EXPORT_H_
#define GDF_CORE_CHECKPOINT_EXPORT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/base/file_system.h"
#include "core/tensor/dtype.h"
#include "core/train/worker_session.h"

namespace gdf::checkpoint {

// Takes an export file by file: Begin, its bytes in order, and so on. Any error ends the export.
class ExportSink {
 public:
  virtual ~ExportSink() = default;
  virtual absl::Status Begin(std::string_view name, uint64_t size_bytes) = 0;
  virtual absl::Status Append(absl::Span<const uint8_t> bytes) = 0;
  virtual absl::Status End() = 0;  // of one file
};

// Into a folder of this node; each file appears whole or not at all.
class FolderSink final : public ExportSink {
 public:
  FolderSink(FileSystem& files, std::string folder) : files_(files), folder_(std::move(folder)) {}
  absl::Status Begin(std::string_view name, uint64_t size_bytes) override;
  absl::Status Append(absl::Span<const uint8_t> bytes) override;
  absl::Status End() override;

 private:
  FileSystem& files_;
  const std::string folder_;
  std::unique_ptr<WritableFile> file_;
};

// Writes plan.files, then model.safetensors as `dtype` (kF32, kBF16 or kF16): the tensors of
// plan.layout take θ in order, then zeros for what the layout has beyond it. kInvalidArgument when
// θ is larger than the layout or a file is none that exports have (core/train/export_files.h); the
// sink's errors. Blocks: call it off the protocol thread.
absl::Status ExportHuggingFace(const train::ExportPlan& plan, absl::Span<const float> theta,
                               tensor::DType dtype, ExportSink& sink);

}  // namespace gdf::checkpoint

#endif  // GDF_CORE_CHECKPOINT_EXPORT_H_
