#include "core/config/yaml_setting.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

namespace gdf::config {
namespace {

void PlaceAt(SourceLocation at, YamlNode* node) {
  node->at = at;
  for (YamlNode& item : node->items) PlaceAt(at, &item);
  for (YamlEntry& entry : node->entries) {
    entry.at = at;
    PlaceAt(at, &entry.value);
  }
}

// The parts of "a.b.c"; empty when one of them is or there are too many.
std::vector<std::string> SplitKey(std::string_view key) {
  std::vector<std::string> parts;
  while (parts.size() < static_cast<size_t>(kMaxYamlDepth)) {
    const size_t dot = key.find('.');
    parts.emplace_back(key.substr(0, dot));
    if (parts.back().empty()) return {};
    if (dot == std::string_view::npos) return parts;
    key.remove_prefix(dot + 1);
  }
  return {};
}

// The value as a node at `at`; nullopt when it is no YAML of one line, which is reported.
std::optional<YamlNode> ParseValue(std::string_view value, SourceLocation at, Problems* problems) {
  if (value.find('\n') != std::string_view::npos) {
    problems->Add(at, "a value has one line");
    return std::nullopt;
  }
  Problems inner("");  // its places count within the value, which helps nobody
  std::optional<YamlNode> node = ParseYaml(value, &inner);
  for (const Problems::Problem& problem : inner.Sorted()) problems->Add(at, problem.message);
  if (!node || !inner.empty()) return std::nullopt;
  PlaceAt(at, &*node);
  return node;
}

// The value at `key` of the map `node`, made when absent.
YamlNode* Child(YamlNode* node, const std::string& key, SourceLocation at) {
  const auto found = std::find_if(node->entries.begin(), node->entries.end(),
                                  [&](const YamlEntry& entry) { return entry.key == key; });
  if (found != node->entries.end()) return &found->value;
  YamlNode value;
  value.at = at;
  node->entries.push_back({key, at, std::move(value)});
  return &node->entries.back().value;
}

}  // namespace

void ApplySetting(std::string_view setting, YamlNode* root, Problems* problems) {
  const SourceLocation at = problems->AddOrigin(absl::StrFormat("--set %s", setting));
  const size_t equals = setting.find('=');
  const std::vector<std::string> parts = SplitKey(setting.substr(0, equals));
  if (equals == std::string_view::npos || equals + 1 == setting.size() || parts.empty()) {
    problems->Add(at, "expected KEY=VALUE, such as train.steps=400");
    return;
  }
  std::optional<YamlNode> value = ParseValue(setting.substr(equals + 1), at, problems);
  if (!value) return;
  YamlNode* node = root;
  std::string path;
  for (const std::string& part : parts) {
    if (node->kind == YamlNode::Kind::kNull) {
      node->kind = YamlNode::Kind::kMap;
      node->at = at;
    }
    if (node->kind != YamlNode::Kind::kMap) {
      problems->Add(at, absl::StrFormat("'%s' holds a value, not keys", path));
      return;
    }
    node = Child(node, part, at);
    path += (path.empty() ? "" : ".") + part;
  }
  *node = *std::move(value);
}

}  // namespace gdf::config
