// Moves an outer state between members: by the leaves of its digests, of θ and then of its momentum, each checked by its own
// hash, so that several members can give parts of one state and none of them can give something else.
#ifndef GDF_CORE_ROUNDS_STATE_TRANSFER_H_
#define GDF_CORE_ROUNDS_STATE_TRANSFER_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/task.h"
#include "core/checkpoint/outer_state.h"
#include "core/rounds/round_env.h"

namespace gdf::rounds {

using checkpoint::OuterStateDraft;

// How a node gives what others fetch.
struct GivingState {
  Executor& executor;
  ComputePool& pool;
  absl::Duration patience;     // for a peer to ask on, and to take a part
  std::function<bool()> busy;  // whether the link is needed for the node's own work: then it gives one leaf every kTrickle
  // Less than others wait for a sign of life (RoundTimings::call); at 10 Mbit/s a twentieth of the time.
  static constexpr absl::Duration kTrickle = absl::Seconds(15);
};

// Answers what the peer at the other end of `stream` asks for of `state`, FetchLeaves by FetchLeaves, until it has finished.
Task<absl::Status> GiveState(GivingState giving, net::Stream& stream, checkpoint::OuterStatePtr state);

// `sources` in the order in which `node` asks them: another one for each node, so that many are spread over them.
std::vector<NodeId> DonorsFor(const NodeId& node, std::vector<NodeId> sources);

// Fetches `target`, whose momentum has `num_momentum` elements, from a few of `sources` at once; who is gone, has something
// else or says nothing is replaced by another, and who gives to too many is asked again. When nobody is left, the last one's
// error, naming it: kDataLoss when its bytes are not that state's; kNotFound when it has it no more; as the transport.
Task<absl::StatusOr<OuterStateDraft>> FetchState(const RoundEnv& env, wire::StateId target, uint64_t num_momentum,
                                                 std::vector<NodeId> sources);

}  // namespace gdf::rounds

#endif  // GDF_CORE_ROUNDS_STATE_TRANSFER_H_
