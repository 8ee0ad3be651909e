#include "core/tensor/layout.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/tensor/quoted.h"

namespace gdf::tensor {
namespace {

using Json = nlohmann::json;

// True when `value` is an object with exactly these keys.
bool HasKeys(const Json& value, std::initializer_list<const char*> keys) {
  if (!value.is_object() || value.size() != keys.size()) return false;
  for (const char* key : keys) {
    if (!value.contains(key)) return false;
  }
  return true;
}

absl::StatusOr<std::vector<int64_t>> ParseShape(const Json& value, const std::string& where) {
  if (!value.is_array()) {
    return absl::InvalidArgumentError(absl::StrCat(where, ": shape must be an array of numbers"));
  }
  std::vector<int64_t> shape;
  for (const Json& dim : value) {
    if (!dim.is_number_unsigned() || dim.get<uint64_t>() > Layout::kMaxElems) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, ": a dimension must be a whole number from 1 to ", Layout::kMaxElems));
    }
    shape.push_back(static_cast<int64_t>(dim.get<uint64_t>()));
  }
  return shape;
}

}  // namespace

absl::StatusOr<uint64_t> ShapeElems(absl::Span<const int64_t> shape) {
  uint64_t elems = 1;
  for (const int64_t dim : shape) {
    if (dim < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape [", absl::StrJoin(shape, ","), "] has a negative dimension"));
    }
    if (elems != 0 && static_cast<uint64_t>(dim) > Layout::kMaxElems / elems) {
      return absl::InvalidArgumentError(absl::StrCat("shape [", absl::StrJoin(shape, ","),
                                                     "] has more than ", Layout::kMaxElems,
                                                     " elements, the largest that is supported"));
    }
    elems *= static_cast<uint64_t>(dim);
  }
  return elems;
}

absl::Status Layout::Add(std::string_view name, absl::Span<const int64_t> shape) {
  if (name.empty() || name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat("tensor name ", Quoted(name), " has ",
                                                   name.size(), " bytes, expected 1 to ",
                                                   kMaxNameBytes));
  }
  if (!std::all_of(name.begin(), name.end(), absl::ascii_isprint)) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor name ", Quoted(name), " must be printable ASCII; rename the tensor"));
  }
  if (index_.contains(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", Quoted(name), " comes twice, names must be unique"));
  }
  if (tensors_.size() == kMaxTensors || shape.size() > kMaxRank) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(name), " of ", shape.size(),
                                                   " dimensions is number ", tensors_.size() + 1,
                                                   ", expected at most ", kMaxRank,
                                                   " dimensions and ", kMaxTensors, " tensors"));
  }
  GDF_ASSIGN_OR_RETURN(const uint64_t elems, ShapeElems(shape));
  if (elems == 0 || elems > kMaxElems - num_params_) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", Quoted(name), " has ", elems, " elements after ", num_params_,
                     ", expected at least 1 and at most ", kMaxElems, " in all"));
  }
  index_.emplace(name, tensors_.size());
  tensors_.push_back({std::string(name), {shape.begin(), shape.end()}, num_params_, elems});
  num_params_ += elems;
  return absl::OkStatus();
}

const TensorInfo* Layout::Find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

std::string Layout::ToJson() const {
  Json list = Json::array();
  for (const TensorInfo& tensor : tensors_) {
    list.push_back({{"name", tensor.name}, {"shape", tensor.shape}});
  }
  return Json{{"tensors", std::move(list)}}.dump();
}

absl::StatusOr<Layout> Layout::FromJson(std::string_view json) {
  if (json.size() > kMaxJsonBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout: ", json.size(), " bytes of JSON, expected at most ", kMaxJsonBytes));
  }
  const Json root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded() || !HasKeys(root, {"tensors"}) || !root["tensors"].is_array()) {
    return absl::InvalidArgumentError(
        "layout: expected the JSON object {\"tensors\":[...]} and nothing else");
  }
  Layout layout;
  for (const Json& entry : root["tensors"]) {
    const std::string where = absl::StrCat("layout: tensor number ", layout.tensors_.size() + 1);
    if (!HasKeys(entry, {"name", "shape"}) || !entry["name"].is_string()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ": expected {\"name\":string,\"shape\":[numbers]}"));
    }
    GDF_ASSIGN_OR_RETURN(const std::vector<int64_t> shape, ParseShape(entry["shape"], where));
    GDF_RETURN_IF_ERROR(
        Annotate(layout.Add(entry["name"].get_ref<const std::string&>(), shape), where));
  }
  return layout;
}

Digest Layout::digest() const { return HashBytes(ToJson()); }

}  // namespace gdf::tensor
