#include <catch2/catch.hpp>

#include "tests/sim/chaos.h"

namespace gdf::sim {
namespace {

TEST_CASE("random jobs under random faults end, with every invariant") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("replay with: sim_replay " << seed);
    CHECK(RunChaos(seed) == "");
  }
}

TEST_CASE("random jobs that once ended wrongly") {
  // A node whose disk had been full when a round was committed signed the next one, of which it then knew nothing after a
  // restart.
  for (const uint64_t seed : {535, 847, 955}) {
    INFO("replay with: sim_replay " << seed);
    CHECK(RunChaos(seed) == "");
  }
}

}  // namespace
}  // namespace gdf::sim
