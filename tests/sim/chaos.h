// Random histories under random faults, each all from one seed. Replay one: sim_replay SEED, or sim_replay coordinators SEED
#ifndef GDF_TESTS_SIM_CHAOS_H_
#define GDF_TESTS_SIM_CHAOS_H_

#include <cstdint>
#include <functional>
#include <string>

namespace gdf::sim {

// What went wrong, with the faults that came before; or nothing. `say`, if any, is told what happens.
using History = std::string(uint64_t seed, const std::function<void(const std::string&)>& say);

// A job, its nodes and their coordinator: faults.h, invariants.h.
History RunChaos;
// A network's coordinators and their clients: coordinators.h.
History RunCoordinatorChaos;

}  // namespace gdf::sim

#endif  // GDF_TESTS_SIM_CHAOS_H_
