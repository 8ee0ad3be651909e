#include "core/config/yaml_node.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <exception>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/str_format.h"

namespace gdf::config {
namespace {

SourceLocation At(const YAML::Mark& mark) {
  return mark.is_null() ? SourceLocation{} : SourceLocation{mark.line + 1, mark.column + 1};
}

// Thrown out of the parser by the event handler below, and caught in ParseYaml.
struct Refused {
  SourceLocation at;
  std::string message;
};

class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(Problems* problems) : problems_(problems) {}

  YamlNode Take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) {
      throw Refused{At(mark), "a second document starts here; a file holds exactly one"};
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    Leave(Enter(NewNode(YamlNode::Kind::kNull, mark)));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    throw Refused{At(mark), "aliases (*name) are not allowed; write the value out"};
  }
  void OnAnchor(const YAML::Mark& mark, const std::string& name) override {
    throw Refused{At(mark), absl::StrFormat("anchors (&%s) are not allowed; write the value out "
                                            "where it is needed",
                                            name)};
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& value) override {
    const bool quoted = tag == "!";  // yaml-cpp's tag of quoted and block scalars; plain: "?"
    RefuseTag(mark, quoted ? "" : tag);
    YamlNode node = NewNode(YamlNode::Kind::kScalar, mark);
    node.scalar = value;
    node.quoted = quoted;
    Leave(Enter(std::move(node)));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    RefuseTag(mark, tag);
    Enter(NewNode(YamlNode::Kind::kList, mark));
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    RefuseTag(mark, tag);
    Enter(NewNode(YamlNode::Kind::kMap, mark));
  }
  void OnMapEnd() override { Close(); }

 private:
  // A container that is being filled; nodes are owned here until closed, so no pointer dangles.
  struct Open {
    YamlNode node;
    std::optional<YamlEntry> key;  // kMap: read, its value is not
  };

  static YamlNode NewNode(YamlNode::Kind kind, const YAML::Mark& mark) {
    YamlNode node;
    node.kind = kind;
    node.at = At(mark);
    return node;
  }

  static void RefuseTag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!") {
      throw Refused{At(mark), absl::StrFormat("tags (%s) are not allowed", tag)};
    }
  }

  // Takes a node that begins; returns it when it is complete already (no container).
  std::optional<YamlNode> Enter(YamlNode node) {
    if (++nodes_ > kMaxYamlNodes) {
      throw Refused{node.at, absl::StrFormat("more than %u values in one file", kMaxYamlNodes)};
    }
    const bool container = node.kind == YamlNode::Kind::kList || node.kind == YamlNode::Kind::kMap;
    const bool is_key = !open_.empty() && open_.back().node.kind == YamlNode::Kind::kMap &&
                        !open_.back().key.has_value();
    if (is_key && node.kind != YamlNode::Kind::kScalar) {
      throw Refused{node.at, "a key must be plain text"};
    }
    if (!container) return node;
    if (open_.size() >= static_cast<size_t>(kMaxYamlDepth)) {
      throw Refused{node.at, absl::StrFormat("nested deeper than %d levels", kMaxYamlDepth)};
    }
    open_.push_back({std::move(node), std::nullopt});
    return std::nullopt;
  }

  void Close() {
    YamlNode node = std::move(open_.back().node);
    open_.pop_back();
    Leave(std::move(node));
  }

  // Puts a complete node into what is open.
  void Leave(std::optional<YamlNode> complete) {
    if (!complete) return;
    if (open_.empty()) {
      root_ = *std::move(complete);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::kList) {
      parent.node.items.push_back(*std::move(complete));
    } else if (!parent.key) {
      parent.key = YamlEntry{std::move(complete->scalar), complete->at, {}};
    } else {
      parent.key->value = *std::move(complete);
      AddEntry(&parent.node, *std::exchange(parent.key, std::nullopt));
    }
  }

  void AddEntry(YamlNode* map, YamlEntry entry) {
    // A mapping with more keys than this is no configuration; it also bounds the search below.
    constexpr size_t kMaxKeys = 256;
    if (map->entries.size() >= kMaxKeys) {
      throw Refused{entry.at, absl::StrFormat("more than %u keys in one mapping", kMaxKeys)};
    }
    for (const YamlEntry& other : map->entries) {
      if (other.key != entry.key) continue;
      problems_->Add(entry.at, absl::StrFormat("duplicate key '%s'; it is already set in line %d",
                                               entry.key, other.at.line));
      return;
    }
    map->entries.push_back(std::move(entry));
  }

  Problems* problems_;
  YamlNode root_;
  std::vector<Open> open_;
  size_t nodes_ = 0;
  int documents_ = 0;
};

// Length of the UTF-8 sequence (Unicode 14, table 3-7) at the front of `s`; 0 when there is none.
size_t Utf8Length(std::string_view s) {
  const auto byte = [&](size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0u; };
  const auto tail = [&](size_t i) { return (byte(i) & 0xC0u) == 0x80u; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F)) return 0;
    return tail(1) && tail(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    if ((lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) return 0;
    return tail(1) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

// Refuses what yaml-cpp would silently replace or guess an encoding from.
bool CheckText(std::string_view text, Problems* problems) {
  if (text.size() > kMaxYamlBytes) {
    problems->Add({}, absl::StrFormat("the file has %u bytes; at most %u are allowed", text.size(),
                                      kMaxYamlBytes));
    return false;
  }
  SourceLocation at{1, 1};
  for (std::string_view rest = text; !rest.empty();) {
    const size_t length = Utf8Length(rest);
    const auto c = static_cast<unsigned char>(rest[0]);
    if (length == 0 || (c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7F) {
      problems->Add(at, absl::StrFormat("byte 0x%02x is not UTF-8 text", c));
      return false;
    }
    rest.remove_prefix(length);
    at = c == '\n' ? SourceLocation{at.line + 1, 1} : SourceLocation{at.line, at.column + 1};
  }
  return true;
}

}  // namespace

std::optional<YamlNode> ParseYaml(std::string_view text, Problems* problems) {
  if (!CheckText(text, problems)) return std::nullopt;
  TreeBuilder builder(problems);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
    return builder.Take();
  } catch (const Refused& refused) {
    problems->Add(refused.at, refused.message);
  } catch (const YAML::Exception& e) {
    problems->Add(At(e.mark), absl::StrFormat("not valid YAML: %s", e.msg));
  } catch (const std::exception& e) {
    problems->Add({}, absl::StrFormat("not valid YAML: %s", e.what()));
  }
  return std::nullopt;
}

std::string QuoteYaml(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (byte < 0x20 || byte == 0x7F) {
      absl::StrAppendFormat(&out, "\\x%02x", byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace gdf::config
