// θ_r with what outer steps carry on beside it: the value that rounds hand on, and that checkpoints keep.
#ifndef GDF_CORE_CHECKPOINT_OUTER_STATE_H_
#define GDF_CORE_CHECKPOINT_OUTER_STATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "core/tensor/flat_buffer.h"
#include "core/wire/round_messages.h"

namespace gdf::checkpoint {

// Immutable once shared, so that any thread may read it and a reader keeps it alive.
struct OuterState {
  wire::StateId id;
  tensor::FlatBuffer theta;     // [num_params]
  // What outer steps carry on: the optimiser's momentum, [num_params], if it has one; then, where deltas go as low-rank
  // factors, the right ones that the next round begins with.
  tensor::FlatBuffer momentum;
  // Of the digests in id, where they were computed here: what the next state has unchanged is not hashed again.
  std::vector<Digest> theta_leaves = {};
  std::vector<Digest> momentum_leaves = {};
  Digest fragment = {};  // of the part of θ that its round exchanged, if that was one of several; not kept on disk

  // Bytes of θ, then those of the momentum: the order of files and of transfers.
  uint64_t num_bytes() const { return (theta.size() + momentum.size()) * sizeof(float); }
};
using OuterStatePtr = std::shared_ptr<const OuterState>;
using OuterStateDraft = std::shared_ptr<OuterState>;  // not shared with other threads yet

// Fills state.id's digests from its buffers: the Merkle roots of their bytes; of no momentum: zero.
void Identify(OuterState& state);
// As above, of a state that differs from `before` in elements [first, first + count) alone.
void IdentifyChange(OuterState& state, const OuterState& before, uint64_t first, uint64_t count);
// kDataLoss naming the part whose digest is not the one in state.id.
absl::Status VerifyDigests(const OuterState& state);
absl::Status VerifyTheta(const OuterState& state);  // whatever the momentum

}  // namespace gdf::checkpoint

#endif  // GDF_CORE_CHECKPOINT_OUTER_STATE_H_
