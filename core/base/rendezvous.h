// Rendezvous hashing (Thaler and Ravishankar 1998): everybody who knows a key finds the same order of nodes for it, another
// one for each key, and who goes or comes moves no other node.
#ifndef GDF_CORE_BASE_RENDEZVOUS_H_
#define GDF_CORE_BASE_RENDEZVOUS_H_

#include <string_view>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"

namespace gdf {

// `nodes` by SHA-256(key ‖ node).
std::vector<NodeId> RendezvousOrder(std::string_view key, absl::Span<const NodeId> nodes);

}  // namespace gdf

#endif  // GDF_CORE_BASE_RENDEZVOUS_H_
