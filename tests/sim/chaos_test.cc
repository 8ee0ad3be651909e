// Random histories; more of them: tests/sim/soak.
#include <catch2/catch.hpp>

#include "tests/sim/chaos.h"

namespace gdf::sim {
namespace {

constexpr uint64_t kSeeds = 300;

TEST_CASE("random jobs under random faults end, with every invariant") {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("replay with: sim_replay " << seed);
    CHECK(RunChaos(seed, nullptr) == "");
  }
}

TEST_CASE("random jobs that once ended wrongly") {
  // The disks of all were full when the last round was committed: its result was on none.
  for (const uint64_t seed : {231, 450}) {
    INFO("replay with: sim_replay " << seed);
    CHECK(RunChaos(seed, nullptr) == "");
  }
  // What a node had trained for a round came back to it as another member's state, and was carried on though it was used.
  for (const uint64_t seed : {92, 118, 168, 270, 271}) {
    INFO("replay with: sim_replay " << seed);
    CHECK(RunChaos(seed, nullptr) == "");
  }
  // A node whose disk had been full when a round was committed signed the next one, of which it then knew nothing after a
  // restart.
  for (const uint64_t seed : {33, 123, 155}) {
    INFO("replay with: sim_replay " << seed);
    CHECK(RunChaos(seed, nullptr) == "");
  }
}

TEST_CASE("coordinators that once lost what was acknowledged") {
  // A process ended before it had synced a transaction, the next one found that and answered by it, and then the power was cut.
  for (const uint64_t seed : {7398}) {
    INFO("replay with: sim_replay coordinators " << seed);
    CHECK(RunCoordinatorChaos(seed, nullptr) == "");
  }
}

TEST_CASE("coordinators and their clients under random faults, with every invariant") {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    INFO("replay with: sim_replay coordinators " << seed);
    CHECK(RunCoordinatorChaos(seed, nullptr) == "");
  }
}

}  // namespace
}  // namespace gdf::sim
