// Decides where jobs run: a pure function of the jobs and of what is known about the nodes, so that
// every coordinator decides alike and a test needs no network.
//
//   for (const Placement& p : Place(requests, offers)) ...
#ifndef GDF_CORE_SCHEDULE_PLACEMENT_H_
#define GDF_CORE_SCHEDULE_PLACEMENT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "core/base/ids.h"
#include "core/config/job_spec.h"
#include "core/schedule/cost.h"

namespace gdf::schedule {

struct GpuOffer {
  std::string name;
  uint64_t total_memory_bytes = 0;
  uint64_t free_memory_bytes = 0;

  bool operator==(const GpuOffer&) const = default;
};

// What one node has; "free" is what no placed job has taken.
struct NodeOffer {
  NodeId id;
  std::string name;
  bool contributor = false;
  bool alive = false;  // online, and not paused by its owner
  uint64_t total_memory_bytes = 0;  // that tasks may use at all
  uint64_t free_memory_bytes = 0;
  std::vector<GpuOffer> gpus;
  int64_t free_tasks = 0;

  bool operator==(const NodeOffer&) const = default;
};

// A job that waits for nodes.
struct JobRequest {
  JobId id;
  const config::JobSpec* spec = nullptr;
  CostSum host_memory_on_cpu;  // per node; EstimateCost's host_memory with gpu = false ...
  CostSum host_memory_on_gpu;  // ... and with gpu = true
  CostSum gpu_memory;          // per GPU
};

enum class Verdict {
  kPlaced,
  kPending,  // may be placed later, when nodes are free, come back or join
  kRefused,  // cannot be placed on this network's nodes (exit code 6)
};

struct ChosenNode {
  NodeId id;
  std::vector<size_t> gpus = {};  // that it computes on, by their place in its offer; none: on the CPU

  bool operator==(const ChosenNode&) const = default;
};

struct Placement {
  JobId job;
  Verdict verdict = Verdict::kPending;
  std::vector<ChosenNode> nodes;  // kPlaced: most free memory first, then by id
  NodeId lead;                    // kPlaced: the first of them
  std::string reason;             // kPending, kRefused: for the user
  int64_t possible = 0;           // nodes that are alive and could run it when nothing else does
};

// What a job needs of a node when it computes on the CPU or on GPUs.
struct Needs {
  uint64_t host_bytes = 0;
  uint64_t gpu_bytes = 0;  // per GPU
  int64_t num_gpus = 0;    // on GPUs: at least 1
};
Needs NeedsOf(const JobRequest& job, bool gpu);

// How `node` would run the job with its free memory: on a GPU that has the memory where the job
// takes one, else on the CPU; nullopt when it cannot.
std::optional<ChosenNode> Fit(const JobRequest& job, const NodeOffer& node);

// The nodes that could run the job now, most free memory first, then by id.
std::vector<NodeId> Able(const JobRequest& job, absl::Span<const NodeOffer> nodes);

// Decides for one job; a placed one takes its memory, GPUs and task slots from `offers`.
Placement PlaceOne(const JobRequest& job, std::vector<NodeOffer>* offers);

// Decides for each job in turn, in the order given; a placed job takes its memory, GPUs and task
// slot from what later ones are offered. A job takes as many suitable nodes as there are, from
// nodes.min to nodes.max, and on each of them computes as Fit says.
std::vector<Placement> Place(absl::Span<const JobRequest> jobs, absl::Span<const NodeOffer> nodes);

}  // namespace gdf::schedule

#endif  // GDF_CORE_SCHEDULE_PLACEMENT_H_
