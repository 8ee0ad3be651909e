#include "core/checkpoint/holders.h"

#include <algorithm>

#include "core/base/byte_io.h"
#include "core/base/rendezvous.h"

namespace gdf::checkpoint {

std::vector<NodeId> HoldersOf(JobId job, absl::Span<const NodeId> members, size_t replicas) {
  std::vector<NodeId> holders = RendezvousOrder(ByteWriter().Bytes("gdf holders 1").U64(job.value).str(), members);
  holders.resize(std::min(replicas, holders.size()));
  return holders;
}

}  // namespace gdf::checkpoint
