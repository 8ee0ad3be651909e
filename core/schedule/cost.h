// What a job costs before it runs: bytes on the wire, memory and disk of each node, item by item,
// and time where a speed is known. Pure arithmetic; docs/job-spec.md shows the formulas.
#ifndef GDF_CORE_SCHEDULE_COST_H_
#define GDF_CORE_SCHEDULE_COST_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/config/job_spec.h"

namespace gdf::schedule {

struct CostItem {
  std::string name;  // "parameters", "gradients", ...
  uint64_t bytes = 0;
};

// A sum that can show its parts.
struct CostSum {
  std::vector<CostItem> items;

  void Add(std::string name, uint64_t bytes);  // items of zero bytes are left out
  uint64_t total_bytes() const;
  // "5.2 GiB: parameters 1.1 GiB + gradients 1.1 GiB + ..."
  std::string ToString() const;
};

struct CostInput {
  const config::JobSpec* spec = nullptr;
  config::ModelShape shape;    // with its vocabulary
  uint64_t dataset_bytes = 0;  // of its texts
  int64_t num_nodes = 1;
  bool gpu = false;  // the worker computes on GPUs
  int64_t gpus_per_node = 1;  // over which a batch is dealt out; 0: one
  std::optional<double> tokens_per_sec = std::nullopt;          // of the slowest node, measured
  std::optional<uint64_t> upload_bytes_per_sec = std::nullopt;  // of the slowest node
};

struct Cost {
  int64_t num_parameters = 0;
  int64_t num_rounds = 0;
  double tokens = 0;  // trained on by all nodes together; whole, but may exceed 64 bits

  // On the wire, each node: payload of reduce-scatter and all-gather.
  uint64_t upload_bytes_per_round = 0;
  uint64_t download_bytes_per_round = 0;
  uint64_t download_bytes_once = 0;  // dataset and starting weights

  CostSum host_memory;  // peaks of worker and gdfd; the items of the latter begin with "gdfd's"
  CostSum gpu_memory;   // per GPU; empty on a CPU
  CostSum disk;

  std::optional<absl::Duration> compute_time;   // absent: no measured speed
  // That no steps of a delay are taken in; absent: no known rate.
  std::optional<absl::Duration> exchange_time;
};

// `input.spec` must be valid, the vocabulary set and num_nodes positive.
Cost EstimateCost(const CostInput& input);

}  // namespace gdf::schedule

#endif  // GDF_CORE_SCHEDULE_COST_H_
