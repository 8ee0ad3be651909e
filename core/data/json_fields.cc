#include "core/data/json_fields.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/text.h"

namespace gdf::data {
namespace {

constexpr int kMaxDepth = 64;

// The deepest nesting of brackets outside strings.
int NestingOf(std::string_view bytes) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const char c = bytes[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseJson(std::string_view bytes, size_t max_bytes) {
  if (bytes.size() > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("JSON of ", bytes.size(), " bytes; at most ", max_bytes, " are read"));
  }
  if (const int depth = NestingOf(bytes); depth > kMaxDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat("JSON nested ", depth, " deep; at most ", kMaxDepth, " is read"));
  }
  try {
    return nlohmann::json::parse(bytes.begin(), bytes.end());
  } catch (const nlohmann::json::exception& e) {
    return absl::InvalidArgumentError(absl::StrCat("not JSON: ", e.what()));
  }
}

absl::StatusOr<JsonObject> JsonObject::From(const nlohmann::json& json, std::string name) {
  if (!json.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is a JSON ", json.type_name(), "; an object was expected"));
  }
  return JsonObject(json, std::move(name));
}

const nlohmann::json* JsonObject::Find(std::string_view key) const {
  const auto it = json_->find(key);
  return it == json_->end() || it->is_null() ? nullptr : &*it;
}

absl::StatusOr<bool> JsonObject::Bool(std::string_view key, std::optional<bool> fallback) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr || !value->is_boolean()) return Wrong(key, "true or false");
  return value->get<bool>();
}

absl::StatusOr<std::string> JsonObject::String(std::string_view key,
                                               std::optional<std::string> fallback) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr && fallback) return *std::move(fallback);
  if (value == nullptr || !value->is_string()) return Wrong(key, "a string");
  return value->get<std::string>();
}

absl::StatusOr<int64_t> JsonObject::Integer(std::string_view key, int64_t max) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr || !value->is_number_unsigned() ||
      value->get<uint64_t>() > static_cast<uint64_t>(max)) {
    return Wrong(key, absl::StrCat("an integer from 0 to ", max));
  }
  return value->get<int64_t>();
}

absl::StatusOr<const nlohmann::json*> JsonObject::Array(std::string_view key) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr || !value->is_array()) return Wrong(key, "an array");
  return value;
}

absl::StatusOr<JsonObject> JsonObject::Object(std::string_view key) const {
  const nlohmann::json* value = Find(key);
  if (value == nullptr || !value->is_object()) return Wrong(key, "an object");
  return JsonObject(*value, NameOf(key));
}

absl::Status JsonObject::OnlyFields(std::initializer_list<std::string_view> known) const {
  for (const auto& [key, value] : json_->items()) {
    if (!value.is_null() && std::find(known.begin(), known.end(), key) == known.end()) {
      return absl::UnimplementedError(absl::StrCat(NameOf(key), " is not supported"));
    }
  }
  return absl::OkStatus();
}

std::string JsonObject::NameOf(std::string_view key) const {
  return name_.empty() ? std::string(key) : absl::StrCat(name_, ".", ToAbsl(key));
}

absl::Status JsonObject::Wrong(std::string_view key, std::string_view expected) const {
  const nlohmann::json* value = Find(key);
  return absl::InvalidArgumentError(absl::StrCat(NameOf(key), " is ",
                                                 value == nullptr ? "missing" : value->type_name(),
                                                 "; ", ToAbsl(expected), " was expected"));
}

}  // namespace gdf::data
