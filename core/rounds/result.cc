#include "core/rounds/result.h"

#include "absl/strings/str_cat.h"
#include "core/tensor/flat_buffer.h"

namespace gdf::rounds {
namespace {

// Which of `count` a state has from the round that made it.
uint64_t FragmentOf(RoundId state, uint64_t count) { return (state.value + count - 1) % count; }

}  // namespace

Result::Result(const wire::StateId& state, const Digest& fragment)
    : round(state.round), theta(state.theta), momentum(state.momentum), fragment(fragment) {}

Digest FragmentDigest(const checkpoint::OuterState& state, const train::Fragments& fragments) {
  if (fragments.count() == 1) return Digest{};
  const uint64_t fragment = FragmentOf(state.id.round, fragments.count());
  return MerkleRoot(tensor::AsBytes(fragments.Slice(state.theta.span(), fragment)));
}

std::string Difference(const Result& a, const Result& b, int64_t fragments) {
  if (a.round != b.round) return "their round";
  const uint64_t count = static_cast<uint64_t>(fragments);
  const std::string fragment = absl::StrCat("fragment ", FragmentOf(a.round, count) + 1, " of ", count);
  if (a.fragment != b.fragment) return fragment;
  if (a.theta != b.theta) return count == 1 ? "theta" : absl::StrCat("theta outside of ", fragment);
  return "the outer momentum";
}

}  // namespace gdf::rounds
