// What the members of a round compare of the states that they came to, and where two of them differ.
#ifndef GDF_CORE_ROUNDS_RESULT_H_
#define GDF_CORE_ROUNDS_RESULT_H_

#include <compare>
#include <cstdint>
#include <string>

#include "core/base/hash.h"
#include "core/checkpoint/outer_state.h"
#include "core/train/fragments.h"
#include "core/wire/round_messages.h"

namespace gdf::rounds {

struct Result {
  Result(const wire::StateId& state, const Digest& fragment);

  auto operator<=>(const Result&) const = default;

  RoundId round;  // of the state
  Digest theta;
  Digest momentum;
  Digest fragment;  // of the part of θ that the round exchanged; zero: all of it
};

// Merkle root of the part of the state's θ that its round exchanged; zero where that is all of it.
Digest FragmentDigest(const checkpoint::OuterState& state, const train::Fragments& fragments);

// "fragment 2 of 3": where two results that are not equal differ, of one round of a job with `fragments`.
std::string Difference(const Result& a, const Result& b, int64_t fragments);

}  // namespace gdf::rounds

#endif  // GDF_CORE_ROUNDS_RESULT_H_
