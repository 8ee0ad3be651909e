// Which of a job's members are near each other, as measured: those of one site exchange over their local network.
#ifndef GDF_CORE_SCHEDULE_SITES_H_
#define GDF_CORE_SCHEDULE_SITES_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"

namespace gdf::schedule {

class Sites {
 public:
  // What `member` says of the others of its last exchange: those within wire::kNearRtt of it.
  void Learn(const NodeId& member, const std::vector<NodeId>& near);

  // By member: equal numbers at the same site. Members of a site are all near each other, as both ends say; in order,
  // each is at the first site that it fits.
  std::vector<uint32_t> Of(absl::Span<const NodeId> members) const;

 private:
  bool Near(const NodeId& a, const NodeId& b) const;

  std::map<NodeId, std::set<NodeId>> near_;
};

// Less passes between them than with everybody sending to everybody: there are two or more, one of them of several.
bool WorthGoingBySites(absl::Span<const uint32_t> sites);

}  // namespace gdf::schedule

#endif  // GDF_CORE_SCHEDULE_SITES_H_
