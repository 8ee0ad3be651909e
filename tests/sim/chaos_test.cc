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

}  // namespace
}  // namespace gdf::sim
