// safetensors files: a checked, copy-free view of one in memory, a streaming writer, and the index
// of a model split over several files. See docs/formats/safetensors.md.
//
//   GDF_ASSIGN_OR_RETURN(SafetensorsView view, SafetensorsView::Parse(bytes));
//   GDF_RETURN_IF_ERROR(view.ReadF32("wte.weight", values));
#ifndef GDF_CORE_TENSOR_SAFETENSORS_H_
#define GDF_CORE_TENSOR_SAFETENSORS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/tensor/dtype.h"
#include "core/tensor/layout.h"

namespace gdf::tensor {

// One tensor of a file. `data` points into the bytes given to Parse, at any alignment.
struct SafetensorsTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  uint64_t num_elems = 0;
  absl::Span<const uint8_t> data;
};

// A parsed file. Const access is safe from any thread.
class SafetensorsView {
 public:
  static constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the reference parser

  // Checks the whole header of `file`, which is not trusted, must outlive the view and must not
  // change below it. Copies no tensor data. kInvalidArgument when the file is truncated, the header
  // is too long or not the JSON the format asks for, a name comes twice, a dtype is unknown, shape
  // and byte range disagree, or the ranges leave the file, overlap or leave a hole.
  static absl::StatusOr<SafetensorsView> Parse(absl::Span<const uint8_t> file);

  // In the order of their data.
  const std::vector<SafetensorsTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // The tensor of that name, or null. Valid as long as the view.
  const SafetensorsTensor* Find(std::string_view name) const;

  // Converts tensor `name` (F32, F16, BF16 or F64) to `out`, [num_elems] float32. kNotFound when
  // there is none; kInvalidArgument for another dtype or when out.size() is not its num_elems.
  absl::Status ReadF32(std::string_view name, absl::Span<float> out) const;

 private:
  std::vector<SafetensorsTensor> tensors_;
  std::map<std::string, size_t, std::less<>> index_;  // name -> place in tensors_
  std::map<std::string, std::string> metadata_;
};

// Writes one file in one pass, holding only a small staging block. Not thread-safe.
//
//   GDF_ASSIGN_OR_RETURN(auto writer, SafetensorsWriter::Start(layout, DType::kBF16, sink));
//   GDF_RETURN_IF_ERROR(writer.Append(theta));
//   GDF_RETURN_IF_ERROR(writer.Finish());
class SafetensorsWriter {
 public:
  // Takes the next bytes of the file; an error ends the writing.
  using Sink = std::function<absl::Status(absl::Span<const uint8_t>)>;

  // The metadata that loaders of the PyTorch world expect.
  static std::map<std::string, std::string> PytorchMetadata() { return {{"format", "pt"}}; }

  // Writes the header: the tensors of `layout` in order, as `dtype` (kF32, kBF16 or kF16).
  // kInvalidArgument for another dtype or a header past the limit; the sink's errors.
  static absl::StatusOr<SafetensorsWriter> Start(
      const Layout& layout, DType dtype, Sink sink,
      const std::map<std::string, std::string>& metadata = PytorchMetadata());

  // Writes the next values in layout order, in pieces of any length. kInvalidArgument when more
  // than num_params come; the sink's errors.
  absl::Status Append(absl::Span<const float> values);

  // kFailedPrecondition when fewer than num_params values came.
  absl::Status Finish() const;

  // Length of the complete file.
  uint64_t file_bytes() const { return file_bytes_; }

 private:
  SafetensorsWriter(DType dtype, Sink sink, uint64_t num_params)
      : dtype_(dtype), sink_(std::move(sink)), num_params_(num_params) {}

  DType dtype_;
  Sink sink_;
  uint64_t num_params_;
  uint64_t written_ = 0;  // values
  uint64_t file_bytes_ = 0;
};

// model.safetensors.index.json: which file of its folder holds which tensor.
struct SafetensorsIndex {
  std::map<std::string, std::string> weight_map;  // tensor -> file name

  // The distinct file names, sorted.
  std::vector<std::string> Files() const;

  // `json` is not trusted. kInvalidArgument when there is no weight_map of strings, or a file name
  // is not a plain name in the same folder.
  static absl::StatusOr<SafetensorsIndex> Parse(std::string_view json);
};

}  // namespace gdf::tensor

#endif  // GDF_CORE_TENSOR_SAFETENSORS_H_
