// What must hold of a simulated job whatever happened to it, each stated once: looked at after every step of the world, and
// over all disks at the end.
//
//   result      a round is committed with one result, on every node and disk, in reports and in the verdict; another only
//               once it was said that those who had it are given up, unless a later epoch commits the same
//   quorum      ... by signatures of most members of an epoch that was opened
//   durable     ... when most of them would still have it after a power cut of them all
//   kept        a node that starts again has what it had committed, unless its disk was full
//   restored    what it begins with is what was saved, bit for bit; the worker's inner state too
//   reproduced  a round's result is what its contributors' deltas make of the one before
//   settled     a delta that is in a committed round is not carried on by its node, and one that is in none is not dropped by a
//               node that saw which rounds were committed
//   bounded     a node holds so many bytes and streams for its peers, and no more
#ifndef GDF_TESTS_SIM_INVARIANTS_H_
#define GDF_TESTS_SIM_INVARIANTS_H_

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/checkpoint/outer_state.h"
#include "tests/sim/recompute.h"

namespace gdf::sim {

class SimJob;

class Invariants {
 public:
  explicit Invariants(SimJob& job);

  void AfterStep();
  // `node` has begun with what its disk held.
  void Started(int node);
  void AtEnd();
  // What did not hold, one a line, each said once.
  std::string violations() const;

  // A majority loses what it did not have to save: a round may be committed a second time, with another result.
  void set_may_roll_back() { may_roll_back_ = true; }
  // Those who are not there are given up, with what only they hold.
  void TellRolledBack();
  // The exchange under way is not computed again.
  void TellTampered();

 private:
  void Violated(const char* invariant, std::string what);
  void Shown(int node, const checkpoint::OuterStatePtr& state, const std::optional<wire::Commit>& commit);
  void CheckQuorum(const wire::Commit& commit, const std::string& where);
  void CheckDurable(const wire::Commit& commit);
  bool GivenUp(const wire::StateId& id) const { return given_up_.count({id.round, id.theta}) > 0; }
  void CheckBounded(int node);
  void CheckDisks();
  void CheckSettled(const wire::Receipt& receipt);
  void CheckReports();

  SimJob& job_;
  bool may_roll_back_ = false;
  std::vector<checkpoint::OuterStatePtr> shown_;         // by node: committed, as it showed last
  std::set<std::pair<NodeId, Digest>> saw_;              // θ of rounds that a node showed
  std::map<RoundId, checkpoint::OuterStatePtr> first_;   // as shown first
  std::map<RoundId, CommittedRound> disks_;              // at the end
  std::map<std::pair<RoundId, Digest>, Epoch> given_up_;  // rounds and their θ, and the epoch that did without them
  std::set<RoundId> once_given_up_;
  std::set<RoundId> tampered_;                           // results of exchanges
  std::set<std::string> violations_;
};

}  // namespace gdf::sim

#endif  // GDF_TESTS_SIM_INVARIANTS_H_
