#include "core/data/post_processor.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/data/bpe.h"

namespace gdf::data {
namespace {

// The ids of one special token, out of the template's table.
absl::StatusOr<std::vector<int32_t>> IdsOf(const JsonObject& table, const std::string& token) {
  GDF_ASSIGN_OR_RETURN(const JsonObject entry, table.Object(token));
  GDF_ASSIGN_OR_RETURN(const nlohmann::json* ids, entry.Array("ids"));
  std::vector<int32_t> out;
  for (const nlohmann::json& id : *ids) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > uint64_t{kMaxTokenId}) {
      return absl::InvalidArgumentError(
          absl::StrCat(entry.NameOf("ids"), " holds something other than an id"));
    }
    out.push_back(id.get<int32_t>());
  }
  return out;
}

absl::Status AddTemplate(const JsonObject& json, PostProcessor* processor) {
  GDF_RETURN_IF_ERROR(json.OnlyFields({"type", "single", "pair", "special_tokens"}));
  GDF_ASSIGN_OR_RETURN(const nlohmann::json* single, json.Array("single"));
  GDF_ASSIGN_OR_RETURN(const JsonObject table, json.Object("special_tokens"));
  std::vector<int32_t> before, behind;
  bool text_seen = false;
  for (size_t i = 0; i < single->size(); ++i) {
    const std::string name = absl::StrCat(json.NameOf("single"), "[", i, "]");
    GDF_ASSIGN_OR_RETURN(const JsonObject part, JsonObject::From((*single)[i], name));
    GDF_RETURN_IF_ERROR(part.OnlyFields({"Sequence", "SpecialToken"}));
    if (part.Find("SpecialToken") != nullptr) {
      GDF_ASSIGN_OR_RETURN(const JsonObject special, part.Object("SpecialToken"));
      GDF_ASSIGN_OR_RETURN(const std::string token, special.String("id"));
      GDF_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, IdsOf(table, token));
      std::vector<int32_t>& side = text_seen ? behind : before;
      side.insert(side.end(), ids.begin(), ids.end());
      continue;
    }
    GDF_ASSIGN_OR_RETURN(const JsonObject sequence, part.Object("Sequence"));
    GDF_ASSIGN_OR_RETURN(const std::string id, sequence.String("id"));
    if (id != "A" || text_seen) {
      return absl::UnimplementedError(
          absl::StrCat(name, ": a template for one text with more than one $A is not supported"));
    }
    text_seen = true;
  }
  if (!text_seen) {
    return absl::InvalidArgumentError(absl::StrCat(json.NameOf("single"), " lacks the text $A"));
  }
  processor->before.insert(processor->before.begin(), before.begin(), before.end());
  processor->behind.insert(processor->behind.end(), behind.begin(), behind.end());
  return absl::OkStatus();
}

absl::Status Add(const JsonObject& json, PostProcessor* processor) {
  GDF_ASSIGN_OR_RETURN(const std::string type, json.String("type"));
  if (type == "TemplateProcessing") return AddTemplate(json, processor);
  if (type == "ByteLevel") {
    return json.OnlyFields({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  }
  if (type != "Sequence") {
    return absl::UnimplementedError(
        absl::StrCat(json.name(), " of type \"", type, "\" is not supported"));
  }
  GDF_RETURN_IF_ERROR(json.OnlyFields({"type", "processors"}));
  GDF_ASSIGN_OR_RETURN(const nlohmann::json* parts, json.Array("processors"));
  for (size_t i = 0; i < parts->size(); ++i) {
    GDF_ASSIGN_OR_RETURN(
        const JsonObject part,
        JsonObject::From((*parts)[i], absl::StrCat(json.NameOf("processors"), "[", i, "]")));
    GDF_RETURN_IF_ERROR(Add(part, processor));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PostProcessor> PostProcessor::Parse(const nlohmann::json* json) {
  PostProcessor processor;
  if (json == nullptr) return processor;
  GDF_ASSIGN_OR_RETURN(const JsonObject object, JsonObject::From(*json, "post_processor"));
  GDF_RETURN_IF_ERROR(Add(object, &processor));
  return processor;
}

}  // namespace gdf::data
