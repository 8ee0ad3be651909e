// What a simulated job is.
#ifndef GDF_TESTS_SIM_JOB_OPTIONS_H_
#define GDF_TESTS_SIM_JOB_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/config/job_spec.h"
#include "tests/sim/sim_network.h"

namespace gdf::sim {

struct JobOptions {
  int nodes = 4;
  int min_nodes = 2;
  int64_t rounds = 3;
  int64_t inner_steps = 4;  // of a round
  int64_t fragments = 1;
  int64_t delay_steps = 0;
  double mixing = 0;
  uint64_t num_params = 1000;
  std::vector<config::CodecSpec> codecs = {{config::CodecKind::kInt8, 64}};
  uint32_t rank = 0;  // PowerSGD's; codecs must be fp32 then
  config::OuterSpec outer = {};
  std::optional<float> constant_gradient = {};  // see SimWorkerOptions
  std::vector<std::vector<std::string>> sites = {};  // of "node0", ...; none: one level. The codec is fp32
  std::vector<std::pair<int, int>> near = {};  // nodes on one local network: sites are measured
  bool steps_by_speed = false;
  config::LateSpec late = {};
  int64_t checkpoint_every = 1;
  absl::Duration round_deadline = absl::Minutes(2);
  bool returns = false;  // nodes that dropped out stand by, and are members again from the round after the next report on
  NetworkOptions network = {};
};

}  // namespace gdf::sim

#endif  // GDF_TESTS_SIM_JOB_OPTIONS_H_
