#include "core/checkpoint/outer_state.h"

#include "absl/strings/str_cat.h"

namespace gdf::checkpoint {
namespace {

absl::Status Compare(const char* what, const Digest& have, const Digest& want, RoundId round) {
  if (have == want) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(what, " of round ", round.value, " has digest ", have.Short(),
                                          ", expected ", want.Short()));
}

}  // namespace

Digest ThetaDigest(absl::Span<const float> theta) { return MerkleRoot(tensor::AsBytes(theta)); }

Digest MomentumDigest(absl::Span<const float> momentum) {
  return momentum.empty() ? Digest{} : MerkleRoot(tensor::AsBytes(momentum));
}

void Identify(OuterState& state) {
  state.id.theta = ThetaDigest(state.theta.span());
  state.id.momentum = MomentumDigest(state.momentum.span());
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
