#include "core/schedule/placement.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/base/text.h"

namespace gdf::schedule {
namespace {

using config::Device;

// Counts memory that is free now, or all there is.
enum class Count { kFree, kTotal };

// By their places in its offer.
std::vector<size_t> GpusWith(const NodeOffer& node, uint64_t bytes, Count count) {
  std::vector<size_t> gpus;
  for (size_t i = 0; i < node.gpus.size(); ++i) {
    const GpuOffer& gpu = node.gpus[i];
    if ((count == Count::kFree ? gpu.free_memory_bytes : gpu.total_memory_bytes) >= bytes) gpus.push_back(i);
  }
  return gpus;
}

uint64_t HostMemory(const NodeOffer& node, Count count) {
  return count == Count::kFree ? node.free_memory_bytes : node.total_memory_bytes;
}

// How `node` would run the job with the memory counted; nullopt when it cannot.
std::optional<ChosenNode> Fit(const JobRequest& job, const NodeOffer& node, Count count) {
  const Device device = job.spec->nodes.device;
  if (device != Device::kCpu && !node.gpus.empty()) {
    const Needs needs = NeedsOf(job, /*gpu=*/true);
    const auto num_gpus = static_cast<size_t>(needs.num_gpus);
    std::vector<size_t> gpus = GpusWith(node, needs.gpu_bytes, count);
    if (gpus.size() >= num_gpus && HostMemory(node, count) >= needs.host_bytes) {
      gpus.resize(num_gpus);  // the first of them
      return ChosenNode{.id = node.id, .gpus = std::move(gpus)};
    }
  }
  if (device == Device::kGpu) return std::nullopt;
  if (HostMemory(node, count) < NeedsOf(job, /*gpu=*/false).host_bytes) return std::nullopt;
  return ChosenNode{.id = node.id};
}

bool Named(const NodeOffer& node, const std::vector<std::string>& where) {
  if (where.empty()) return true;
  const std::string id = node.id.ToString();
  return std::any_of(where.begin(), where.end(),
                     [&](const std::string& w) { return w == node.name || w == id; });
}

void TakeResources(const JobRequest& job, const ChosenNode& chosen, NodeOffer* node) {
  const Needs needs = NeedsOf(job, !chosen.gpus.empty());
  node->free_memory_bytes -= needs.host_bytes;
  --node->free_tasks;
  for (const size_t gpu : chosen.gpus) node->gpus[gpu].free_memory_bytes -= needs.gpu_bytes;
}

// "needs 5.0 GiB of host memory (5.0 GiB: parameters ... + ...), more than the 4.0 GiB of the best
// node, ws1": the sum that does not fit, for a person to act on.
std::string Shortage(std::string_view kind, uint64_t need, uint64_t asked, const CostSum& sum,
                     uint64_t best, std::string_view best_name) {
  const std::string why =
      asked >= sum.total_bytes() && asked > 0 ? "asked for by job.yaml" : sum.ToString();
  return absl::StrFormat(
      "needs %s of %s memory on each node (%s), more than the %s of the best "
      "node, %s",
      HumanBytes(need), kind, why, HumanBytes(best), best_name);
}

// Why not even one node could run the job, with all the memory it has.
std::string WhyTooSmall(const JobRequest& job, const std::vector<const NodeOffer*>& nodes) {
  const config::NodesSpec& spec = job.spec->nodes;
  const auto by_host = [](const NodeOffer* a, const NodeOffer* b) {
    return a->total_memory_bytes < b->total_memory_bytes;
  };
  const NodeOffer* most_host = *std::max_element(nodes.begin(), nodes.end(), by_host);
  if (spec.device == Device::kGpu) {
    const Needs needs = NeedsOf(job, /*gpu=*/true);
    uint64_t best = 0, most = 0;
    std::string best_name = most_host->name;
    for (const NodeOffer* node : nodes) {
      most = std::max<uint64_t>(most, node->gpus.size());
      for (const GpuOffer& gpu : node->gpus) {
        if (gpu.total_memory_bytes <= best) continue;
        best = gpu.total_memory_bytes;
        best_name = node->name;
      }
    }
    if (most < static_cast<uint64_t>(needs.num_gpus)) {
      return absl::StrFormat("needs %s on each node; the most that a node has is %d; nodes.device: auto also takes nodes without, to "
                             "compute on their CPUs",
                             Counted(needs.num_gpus, "GPU"), most);
    }
    if (best < needs.gpu_bytes) {
      return Shortage("GPU", needs.gpu_bytes, spec.gpu_memory_bytes, job.gpu_memory, best,
                      best_name);
    }
    if (most_host->total_memory_bytes < needs.host_bytes) {
      return Shortage("host", needs.host_bytes, spec.memory_bytes, job.host_memory_on_gpu,
                      most_host->total_memory_bytes, most_host->name);
    }
    return absl::StrFormat(
        "needs %s of host memory and %s of %s on the same node; no node "
        "has both",
        HumanBytes(needs.host_bytes), Counted(needs.num_gpus, "GPU"), HumanBytes(needs.gpu_bytes));
  }
  return Shortage("host", NeedsOf(job, false).host_bytes, spec.memory_bytes, job.host_memory_on_cpu,
                  most_host->total_memory_bytes, most_host->name);
}

// "nodes.where names 'x'", which no node is called; empty when all are known.
std::string UnknownName(const JobRequest& job, const std::vector<NodeOffer>& offers) {
  const auto unknown = [&](const std::string& name) {
    return std::none_of(offers.begin(), offers.end(), [&](const NodeOffer& node) { return Named(node, {name}); });
  };
  for (const std::string& name : job.spec->nodes.where) {
    if (unknown(name)) return absl::StrFormat("nodes.where names '%s'", name);
  }
  for (const std::vector<std::string>& site : job.spec->nodes.sites) {
    for (const std::string& name : site) {
      if (unknown(name)) return absl::StrFormat("nodes.sites names '%s'", name);
    }
  }
  return {};
}

struct Candidate {
  ChosenNode chosen;
  NodeOffer* node;
};

// How many nodes are left after each thing that a job asks of them.
struct Suitable {
  int64_t contribute = 0, able = 0, alive = 0, free = 0;
};

// The keys of job.yaml by which fewer nodes are asked for: `count` sets both of the others.
const char* HelpWithFewer(const config::NodesSpec& spec) {
  return spec.min == spec.max
             ? "invite more (gdfctl invite), or ask for fewer: nodes.count, or nodes.min and nodes.max"
             : "invite more (gdfctl invite), or ask for fewer: nodes.min";
}

// "needs 2 nodes: 3 can contribute, ... 1 of those are free", and what its user can do.
std::string WhyPending(const config::NodesSpec& spec, const Suitable& n) {
  const int64_t needed = spec.min;
  const char* help = n.contribute < needed ? HelpWithFewer(spec)
                     : n.able < needed     ? "add nodes that have it, or ask for less below nodes:"
                     : n.alive < needed    ? "start gdfd on those that are not online (gdfctl node list)"
                                           : "it begins when other jobs end (gdfctl job list)";
  return absl::StrFormat(
      "needs %s: %d can contribute, %d of them have the hardware, %d of those are alive, %d of "
      "those are free; %s",
      Counted(needed, "node"), n.contribute, n.able, n.alive, n.free, help);
}

}  // namespace

Needs NeedsOf(const JobRequest& job, bool gpu) {
  const config::NodesSpec& n = job.spec->nodes;
  const CostSum& host = gpu ? job.host_memory_on_gpu : job.host_memory_on_cpu;
  Needs needs{.host_bytes = std::max(n.memory_bytes, host.total_bytes())};
  if (gpu) {
    needs.gpu_bytes = std::max(n.gpu_memory_bytes, job.gpu_memory.total_bytes());
    needs.num_gpus = std::max<int64_t>(1, n.gpus);
  }
  return needs;
}

std::optional<ChosenNode> Fit(const JobRequest& job, const NodeOffer& node) {
  return Fit(job, node, Count::kFree);
}

std::vector<NodeId> Able(const JobRequest& job, absl::Span<const NodeOffer> nodes) {
  config::JobSpec spec = *job.spec;
  spec.nodes.min = 1;
  spec.nodes.max = static_cast<int64_t>(nodes.size());
  JobRequest any = job;
  any.spec = &spec;
  std::vector<NodeId> able;
  for (const Placement& placement : Place({any}, nodes)) {
    for (const ChosenNode& node : placement.nodes) able.push_back(node.id);
  }
  return able;
}

Placement PlaceOne(const JobRequest& job, std::vector<NodeOffer>* offers) {
  const config::NodesSpec& spec = job.spec->nodes;
  Placement p;
  p.job = job.id;
  if (const std::string unknown = UnknownName(job, *offers); !unknown.empty()) {
    p.verdict = Verdict::kRefused;
    p.reason = absl::StrFormat("%s, which is no member of this network", unknown);
    return p;
  }
  std::vector<const NodeOffer*> contributors;
  int64_t able = 0, able_alive = 0;
  std::vector<Candidate> candidates;
  for (NodeOffer& node : *offers) {
    if (!node.contributor || !Named(node, spec.where)) continue;
    contributors.push_back(&node);
    if (!Fit(job, node, Count::kTotal)) continue;
    ++able;
    if (!node.alive) continue;
    ++able_alive;
    const std::optional<ChosenNode> fit = Fit(job, node, Count::kFree);
    if (fit && node.free_tasks > 0) candidates.push_back({*fit, &node});
  }
  p.possible = able_alive;
  if (!contributors.empty() && able == 0) {
    p.verdict = Verdict::kRefused;
    p.reason = WhyTooSmall(job, contributors);
    return p;
  }
  if (static_cast<int64_t>(candidates.size()) < spec.min) {
    p.reason = WhyPending(spec, {static_cast<int64_t>(contributors.size()), able, able_alive,
                                     static_cast<int64_t>(candidates.size())});
    return p;
  }
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    if (a.node->free_memory_bytes != b.node->free_memory_bytes) {
      return a.node->free_memory_bytes > b.node->free_memory_bytes;
    }
    return a.node->id < b.node->id;
  });
  candidates.resize(std::min(candidates.size(), static_cast<size_t>(spec.max)));
  p.verdict = Verdict::kPlaced;
  p.lead = candidates[0].node->id;
  for (const Candidate& candidate : candidates) {
    p.nodes.push_back(candidate.chosen);
    TakeResources(job, candidate.chosen, candidate.node);
  }
  return p;
}

std::vector<Placement> Place(absl::Span<const JobRequest> jobs, absl::Span<const NodeOffer> nodes) {
  std::vector<NodeOffer> offers(nodes.begin(), nodes.end());
  std::vector<Placement> placements;
  placements.reserve(jobs.size());
  for (const JobRequest& job : jobs) placements.push_back(PlaceOne(job, &offers));
  return placements;
}

}  // namespace gdf::schedule
