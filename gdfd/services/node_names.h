// Nodes by name, for people. Records and messages between nodes name them by id, since names
// change; whoever shows them puts the names of the moment in.
#ifndef GDF_GDFD_SERVICES_NODE_NAMES_H_
#define GDF_GDFD_SERVICES_NODE_NAMES_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.h"
#include "core/state/records.h"

namespace gdf::services {

class NodeNames {
 public:
  explicit NodeNames(const std::vector<state::Member>& members);

  // "workshop"; "workshop (nbswy3dpeb)" where several were called so; of a node that was never a
  // member the beginning of its id.
  std::string Of(const NodeId& node) const;
  // The text with names in the place of NodeId::Short().
  std::string In(std::string_view text) const;

 private:
  std::map<std::string, std::string, std::less<>> by_short_id_;
};

}  // namespace gdf::services

#endif  // GDF_GDFD_SERVICES_NODE_NAMES_H_
