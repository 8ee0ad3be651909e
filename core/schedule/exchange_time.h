// How long an exchange takes, from links and a codec: the one model behind a job's plan, the choice of a codec
// and the size of shards. Formulas and where they come from: docs/collectives.md.
#ifndef GDF_CORE_SCHEDULE_EXCHANGE_TIME_H_
#define GDF_CORE_SCHEDULE_EXCHANGE_TIME_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace gdf::schedule {

// What one node sends and receives at most, with all peers together. 0: no limit is known.
struct Link {
  double up_bytes_per_sec = 0;
  double down_bytes_per_sec = 0;
};

// kDirect: every owner takes slices from everybody and gives them means. kRing: partial sums go round, then means.
// kAllGather: everybody's whole delta to everybody.
enum class Form { kDirect, kRing, kAllGather };

struct ExchangeLoad {
  std::vector<Link> links;     // one a member, in order; not empty
  double packed_bytes = 0;     // of one member's delta
  std::vector<double> shares;  // of the delta, by owner, sum 1; empty: equal. Of kDirect
  absl::Duration rtt;          // between two members
  double num_values = 0;
  double values_per_sec = 0;  // that a member decodes, adds up or encodes; 0: coding takes no time
};

// What a member that owns `share` of the delta sends, and receives.
double BytesMoved(Form form, double packed_bytes, size_t members, double share);

// From the packed delta at every member to the mean at every member.
absl::Duration ExchangeTime(Form form, const ExchangeLoad& load);

// The shares of kDirect by which the members, of these links, are done soonest: none above `max_share`, which is at
// least 1/N. Equal where a link is not known. The sum is 1.
std::vector<double> BestShares(const std::vector<Link>& links, double max_share);

}  // namespace gdf::schedule

#endif  // GDF_CORE_SCHEDULE_EXCHANGE_TIME_H_
