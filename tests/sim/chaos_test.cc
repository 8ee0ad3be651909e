#include <catch2/catch.hpp>

#include "tests/sim/chaos.h"

namespace gdf::sim {
namespace {

TEST_CASE("random jobs under random faults end, with every invariant") {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    INFO("replay with: sim_replay " << seed);
    CHECK(RunChaos(seed) == "");
  }
}

TEST_CASE("random jobs that once ended wrongly") {
  // A node crashed after it had shown a state that it was given as committed, and before that was on its disk.
  for (const uint64_t seed : {1951, 2445, 3722}) {
    INFO("replay with: sim_replay " << seed);
    CHECK(RunChaos(seed) == "");
  }
}

}  // namespace
}  // namespace gdf::sim
