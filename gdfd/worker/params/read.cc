#include <algorithm>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "gdfd/worker/params/parameters.h"

namespace gdf::worker {
namespace {

using tensor::SafetensorsTensor;
using tensor::SafetensorsView;

std::string_view BasePrefix(const config::ModelShape& shape) {
  return std::holds_alternative<config::Gpt2Shape>(shape) ? "transformer." : "model.";
}

// Tensors that files carry beside the parameters: buffers, and the second name of a tied embedding.
bool IsNotAParameter(const config::ModelShape& shape, std::string_view name) {
  const absl::string_view n(name.data(), name.size());
  if (absl::EndsWith(n, ".rotary_emb.inv_freq")) return true;
  if (std::holds_alternative<config::Gpt2Shape>(shape) &&
      (absl::EndsWith(n, ".attn.bias") || absl::EndsWith(n, ".attn.masked_bias"))) {
    return true;
  }
  return config::TiedEmbeddings(shape) && n == "lm_head.weight";
}

absl::StatusOr<bool> IsAllZero(const SafetensorsView& file, const SafetensorsTensor& t) {
  std::vector<float> values(t.num_elems);
  GDF_RETURN_IF_ERROR(file.ReadF32(t.name, absl::MakeSpan(values)));
  return std::all_of(values.begin(), values.end(), [](float v) { return v == 0; });
}

std::string ShapeText(absl::Span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// Reads the tensors of one file; `seen` counts each parameter over all files.
class Reader {
 public:
  Reader(const config::ModelShape& shape, const tensor::Layout& layout,
         const tensor::Layout& exported, absl::Span<float> out)
      : shape_(shape), layout_(layout), exported_(exported), out_(out) {}

  absl::Status ReadFile(const SafetensorsView& file) {
    for (const SafetensorsTensor& t : file.tensors()) {
      if (IsNotAParameter(shape_, t.name)) continue;
      GDF_RETURN_IF_ERROR(ReadTensor(file, t));
    }
    return absl::OkStatus();
  }

  absl::Status CheckComplete() const {
    for (const tensor::TensorInfo& t : layout_.tensors()) {
      if (!seen_.contains(t.name)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the model's files lack tensor '", t.name, "' of shape ", ShapeText(t.shape)));
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadTensor(const SafetensorsView& file, const SafetensorsTensor& t) {
    std::string name = t.name;
    if (exported_.Find(name) == nullptr) name = absl::StrCat(BasePrefix(shape_).data(), t.name);
    const tensor::TensorInfo* info = exported_.Find(name);
    if (info == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor '", t.name, "' is not a part of this model: do config.json and the weights belong together?"));
    }
    if (t.shape != info->shape) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", t.name, "' has shape ",
                                                     ShapeText(t.shape), ", config.json asks for ",
                                                     ShapeText(info->shape)));
    }
    if (!seen_.insert(name).second) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", t.name, "' is there twice"));
    }
    const tensor::TensorInfo* trained = layout_.Find(name);
    if (trained != nullptr) return file.ReadF32(t.name, layout_.Slice(out_, *trained));
    GDF_ASSIGN_OR_RETURN(const bool zero, IsAllZero(file, t));
    if (zero) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor '", t.name, "' is not zero, but the model is said to have no biases"));
  }

  const config::ModelShape& shape_;
  const tensor::Layout& layout_;
  const tensor::Layout& exported_;
  absl::Span<float> out_;
  absl::flat_hash_set<std::string> seen_;
};

}  // namespace

absl::Status ReadParameters(const config::ModelShape& shape,
                            absl::Span<const SafetensorsView> files, absl::Span<float> out) {
  GDF_ASSIGN_OR_RETURN(const tensor::Layout layout, ParameterLayout(shape));
  GDF_ASSIGN_OR_RETURN(const tensor::Layout exported, ExportLayout(shape));
  if (out.size() != layout.num_params()) {
    return absl::InvalidArgumentError(absl::StrCat("the buffer holds ", out.size(),
                                                   " values, the model has ", layout.num_params()));
  }
  Reader reader(shape, layout, exported, out);
  for (const SafetensorsView& file : files) GDF_RETURN_IF_ERROR(reader.ReadFile(file));
  return reader.CheckComplete();
}

}  // namespace gdf::worker
