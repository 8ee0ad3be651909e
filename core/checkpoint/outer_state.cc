#include "core/checkpoint/outer_state.h"

#include "absl/strings/str_cat.h"

namespace gdf::checkpoint {
namespace {

absl::Status Compare(const char* what, const Digest& have, const Digest& want, RoundId round) {
  if (have == want) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(what, " of round ", round.value, " has digest ", have.Short(),
                                          ", expected ", want.Short()));
}

// Leaves of `values`. Those that have none of the bytes [first, first + count) are `known`'s, if it has any.
std::vector<Digest> LeavesOf(absl::Span<const float> values, uint64_t first, uint64_t count,
                             const std::vector<Digest>& known) {
  const absl::Span<const uint8_t> bytes = tensor::AsBytes(values);
  std::vector<Digest> leaves;
  for (size_t at = 0; at < bytes.size(); at += kMerkleLeafBytes) {
    const absl::Span<const uint8_t> leaf = bytes.subspan(at, kMerkleLeafBytes);
    const bool changed = at < first + count && first < at + leaf.size();
    const bool is_known = !changed && leaves.size() < known.size();
    leaves.push_back(is_known ? known[leaves.size()] : MerkleLeaf(leaf));
  }
  return leaves;
}

Digest RootOf(absl::Span<const float> values, const std::vector<Digest>& leaves) {
  return MerkleRootOfLeaves(leaves, values.size() * sizeof(float));
}

Digest ThetaDigest(absl::Span<const float> theta) { return MerkleRoot(tensor::AsBytes(theta)); }

Digest MomentumDigest(absl::Span<const float> momentum) {
  return momentum.empty() ? Digest{} : MerkleRoot(tensor::AsBytes(momentum));
}

}  // namespace

void Identify(OuterState& state) {
  IdentifyChange(state, OuterState{}, 0, state.theta.size());
}

void IdentifyChange(OuterState& state, const OuterState& before, uint64_t first, uint64_t count) {
  const uint64_t first_byte = first * sizeof(float);
  const uint64_t num_bytes = count * sizeof(float);
  state.theta_leaves = LeavesOf(state.theta.span(), first_byte, num_bytes, before.theta_leaves);
  state.momentum_leaves = LeavesOf(state.momentum.span(), first_byte, num_bytes, before.momentum_leaves);
  state.id.theta = RootOf(state.theta.span(), state.theta_leaves);
  state.id.momentum = state.momentum.size() == 0 ? Digest{} : RootOf(state.momentum.span(), state.momentum_leaves);
}

absl::Status VerifyTheta(const OuterState& state) {
  return Compare("theta", ThetaDigest(state.theta.span()), state.id.theta, state.id.round);
}

absl::Status VerifyDigests(const OuterState& state) {
  const absl::Status theta = VerifyTheta(state);
  if (!theta.ok()) return theta;
  return Compare("momentum", MomentumDigest(state.momentum.span()), state.id.momentum, state.id.round);
}

}  // namespace gdf::checkpoint
