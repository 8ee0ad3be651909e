// Reading JSON from strangers: bounded, without exceptions, every error naming the field.
#ifndef GDF_CORE_DATA_JSON_FIELDS_H_
#define GDF_CORE_DATA_JSON_FIELDS_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gdf::data {

// kInvalidArgument: no JSON (with the byte), larger than `max_bytes` or nested deeper than 64.
absl::StatusOr<nlohmann::json> ParseJson(std::string_view bytes, size_t max_bytes);

// One JSON object and its name in messages ("pre_tokenizer.pretokenizers[1]"). A view: `json` must
// outlive it. An absent field and one that is null are the same.
class JsonObject {
 public:
  // kInvalidArgument where `json` is no object.
  static absl::StatusOr<JsonObject> From(const nlohmann::json& json, std::string name);

  const std::string& name() const { return name_; }

  // Null where the field is absent or null.
  const nlohmann::json* Find(std::string_view key) const;

  // The field, or the fallback where it is absent. kInvalidArgument: absent without fallback, or of
  // another type.
  absl::StatusOr<bool> Bool(std::string_view key, std::optional<bool> fallback = {}) const;
  absl::StatusOr<std::string> String(std::string_view key,
                                     std::optional<std::string> fallback = {}) const;
  // Not negative, at most `max`.
  absl::StatusOr<int64_t> Integer(std::string_view key, int64_t max) const;
  absl::StatusOr<const nlohmann::json*> Array(std::string_view key) const;
  absl::StatusOr<JsonObject> Object(std::string_view key) const;

  // kUnimplemented with the name of a field that is neither null nor among `known`.
  absl::Status OnlyFields(std::initializer_list<std::string_view> known) const;

  // "name.key", for messages.
  std::string NameOf(std::string_view key) const;

 private:
  JsonObject(const nlohmann::json& json, std::string name) : json_(&json), name_(std::move(name)) {}

  absl::Status Wrong(std::string_view key, std::string_view expected) const;

  const nlohmann::json* json_;
  std::string name_;
};

}  // namespace gdf::data

#endif  // GDF_CORE_DATA_JSON_FIELDS_H_
