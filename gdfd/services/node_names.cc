#include "gdfd/services/node_names.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace gdf::services {

NodeNames::NodeNames(const std::vector<state::Member>& members) {
  std::map<std::string, int> bearers;
  for (const state::Member& member : members) ++bearers[member.profile.name];
  for (const state::Member& member : members) {
    const std::string& name = member.profile.name;
    const std::string id = member.id.Short();
    by_short_id_[id] = bearers[name] == 1 ? name : absl::StrCat(name, " (", id, ")");
  }
}

std::string NodeNames::Of(const NodeId& node) const {
  const auto known = by_short_id_.find(node.Short());
  return known != by_short_id_.end() ? known->second : node.Short();
}

std::string NodeNames::In(std::string_view text) const {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && absl::ascii_isalnum(text[end])) ++end;
    const std::string_view word = text.substr(at, end - at);
    const auto known = by_short_id_.find(word);
    out += known != by_short_id_.end() ? known->second : word;
    if (end < text.size()) out += text[end++];
    at = end;
  }
  return out;
}

}  // namespace gdf::services
