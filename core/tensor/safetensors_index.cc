#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/tensor/quoted.h"
#include "core/tensor/safetensors.h"

namespace gdf::tensor {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxIndexBytes = size_t{32}
                                  << 20;   // some hundred times those of the largest models
constexpr size_t kMaxFileNameBytes = 255;  // of Linux file systems

// True for a name that can only mean a file of the index's own folder, on Windows too.
bool IsPlainFileName(const std::string& name) {
  return !name.empty() && name.size() <= kMaxFileNameBytes && name.front() != '.' &&
         absl::EndsWith(name, ".safetensors") &&
         std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isprint(c) && c != '/' && c != '\\' && c != ':';
         });
}

absl::Status Bad(const std::string& message) {
  return absl::InvalidArgumentError(absl::StrCat("model.safetensors.index.json: ", message));
}

}  // namespace

absl::StatusOr<SafetensorsIndex> SafetensorsIndex::Parse(std::string_view json) {
  if (json.size() > kMaxIndexBytes) {
    return Bad(absl::StrCat(json.size(), " bytes, expected at most ", kMaxIndexBytes));
  }
  const Json root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded() || !root.is_object()) return Bad("not a JSON object");
  const auto weight_map = root.find("weight_map");
  if (weight_map == root.end() || !weight_map->is_object() || weight_map->empty()) {
    return Bad("expected an object \"weight_map\" from tensor names to file names");
  }
  SafetensorsIndex index;
  for (const auto& [tensor, file] : weight_map->items()) {
    if (!file.is_string()) {
      return Bad(absl::StrCat("tensor ", Quoted(tensor), ": the file name must be a string"));
    }
    const std::string& name = file.get_ref<const std::string&>();
    if (!IsPlainFileName(name)) {
      return Bad(
          absl::StrCat("tensor ", Quoted(tensor), ": file name ", Quoted(name),
                       ", expected the plain name of a .safetensors file in the same folder"));
    }
    index.weight_map.emplace(tensor, name);
  }
  return index;
}

std::vector<std::string> SafetensorsIndex::Files() const {
  std::set<std::string> files;
  for (const auto& [tensor, file] : weight_map) files.insert(file);
  return {files.begin(), files.end()};
}

}  // namespace gdf::tensor
