// Moves an outer state between members: θ, then its momentum, in frames of 1 MiB, checked by digest.
#ifndef GDF_CORE_ROUNDS_STATE_TRANSFER_H_
#define GDF_CORE_ROUNDS_STATE_TRANSFER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "core/base/task.h"
#include "core/checkpoint/outer_state.h"
#include "core/rounds/round_env.h"

namespace gdf::rounds {

using checkpoint::OuterStateDraft;

// Sends `state` to whoever opened `stream`.
Task<absl::Status> SendState(net::Stream& stream, checkpoint::OuterStatePtr state);

// Fetches `target` from `source`, whose momentum has `num_momentum` elements. kDataLoss when the bytes are not that state's; kNotFound when it has it no more;
// kUnavailable and kDeadlineExceeded as the transport, each naming the source.
Task<absl::StatusOr<OuterStateDraft>> FetchState(const RoundEnv& env, wire::StateId target, uint64_t num_momentum,
                                                 NodeId source);

}  // namespace gdf::rounds

#endif  // GDF_CORE_ROUNDS_STATE_TRANSFER_H_
