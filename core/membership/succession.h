// Whether one node is another one under a new key, as a log shows that is not trusted yet.
#ifndef GDF_CORE_MEMBERSHIP_SUCCESSION_H_
#define GDF_CORE_MEMBERSHIP_SUCCESSION_H_

#include <string_view>

#include "core/base/ids.h"

namespace gdf::membership {

// Follows the key rotations of a node through log entries in their order. Whoever wrote the log, a
// rotation counts only when the key before it has signed it for this network.
class SuccessionProof {
 public:
  SuccessionProof(const NetworkId& network, const NodeId& node)
      : network_(network), current_(node) {}

  // An encoded command. Whatever else it is changes nothing.
  void Take(std::string_view command);
  // The node's id after what was taken.
  const NodeId& current() const { return current_; }

 private:
  const NetworkId network_;
  NodeId current_;
};

}  // namespace gdf::membership

#endif  // GDF_CORE_MEMBERSHIP_SUCCESSION_H_
