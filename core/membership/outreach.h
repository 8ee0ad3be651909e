// Connects a coordinator with the members that are not: a member that knows it by an address which
// it has no more does not find it, and may still be where the record says.
#ifndef GDF_CORE_MEMBERSHIP_OUTREACH_H_
#define GDF_CORE_MEMBERSHIP_OUTREACH_H_

#include <vector>

#include "core/base/rng.h"
#include "core/base/task.h"
#include "core/net/transport.h"
#include "core/state/state.h"

namespace gdf::membership {

// On the executor. Dials from its construction on: soon at first, then once a minute, a bounded
// number at a time.
class Outreach {
 public:
  // All outlive it.
  Outreach(net::Transport& transport, state::State& state, Rng& rng);

 private:
  Task<void> Run();
  Task<void> ReachAbsent();
  std::vector<NodeId> Absent() const;

  net::Transport& transport_;
  state::State& state_;
  Rng& rng_;
  TaskScope tasks_;
};

}  // namespace gdf::membership

#endif  // GDF_CORE_MEMBERSHIP_OUTREACH_H_
