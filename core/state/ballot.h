// What a coordinator has promised to the others (core/consensus) and must not forget: in its copy of the state's database,
// but no part of the network's state. A choice of other coordinators begins it anew, in the transaction of its entry.
#ifndef GDF_CORE_STATE_BALLOT_H_
#define GDF_CORE_STATE_BALLOT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "core/store/sqlite.h"

namespace gdf::state {

struct Ballot {
  uint64_t term = 0;                // messages of earlier terms are refused
  std::optional<NodeId> vote;       // for the leader of `term`
  uint64_t accepted = 0;            // the term whose leader's log this node has
  std::vector<std::string> tail;    // encoded commands of it that follow the last applied entry: not decided, as far as known
  bool abstains = false;            // has forgotten what it promised: votes and accepts nothing
};

absl::StatusOr<Ballot> ReadBallot(store::Database& db);
// Without the tail. In the caller's transaction, as the next two.
absl::Status WriteVote(store::Database& db, uint64_t term, const std::optional<NodeId>& vote);
// The leader of `term` has `tail` after entry `after`.
absl::Status WriteTail(store::Database& db, uint64_t term, uint64_t after, const std::vector<std::string>& tail);
absl::Status ResetBallot(store::Database& db);

}  // namespace gdf::state

#endif  // GDF_CORE_STATE_BALLOT_H_
