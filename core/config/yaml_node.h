// A YAML document as a plain tree that remembers where everything stands. Only what a
// configuration needs is accepted: one document of mappings with plain keys, lists and scalars.
// Anchors, aliases and tags are refused, so a document cannot be larger than its text.
#ifndef GDF_CORE_CONFIG_YAML_NODE_H_
#define GDF_CORE_CONFIG_YAML_NODE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/source_location.h"

namespace gdf::config {

inline constexpr size_t kMaxYamlBytes = 1 << 20;
inline constexpr int kMaxYamlDepth = 32;
inline constexpr size_t kMaxYamlNodes = 100'000;

struct YamlEntry;

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  SourceLocation at;
  std::string scalar;              // kScalar
  bool quoted = false;             // kScalar: text even when it looks like a number
  std::vector<YamlNode> items;     // kList
  std::vector<YamlEntry> entries;  // kMap, in the order of the file; keys are unique
};

struct YamlEntry {
  std::string key;
  SourceLocation at;  // of the key
  YamlNode value;
};

// Parses UTF-8 text; an empty document is kNull. On a syntax error, a second document or anything
// above the limits: nullopt, and the reason is in `problems`. Of a duplicate key the first value is
// kept and the second reported.
std::optional<YamlNode> ParseYaml(std::string_view text, Problems* problems);

// A double-quoted YAML scalar that parses to exactly `text` (UTF-8).
std::string QuoteYaml(std::string_view text);

}  // namespace gdf::config

#endif  // GDF_CORE_CONFIG_YAML_NODE_H_
