// A random job under random faults, all from one seed: crashes, restarts, resets, cuts, crashes between two writes of a
// disk, deltas that must be refused. Replay one with its history: sim_replay SEED
#ifndef GDF_TESTS_SIM_CHAOS_H_
#define GDF_TESTS_SIM_CHAOS_H_

#include <cstdint>
#include <functional>
#include <string>

namespace gdf::sim {

// What went wrong, or nothing. `say`, if any, is told what happens.
std::string RunChaos(uint64_t seed, const std::function<void(const std::string&)>& say = nullptr);

}  // namespace gdf::sim

#endif  // GDF_TESTS_SIM_CHAOS_H_
