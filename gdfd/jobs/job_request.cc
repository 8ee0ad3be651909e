#include "gdfd/jobs/job_request.h"

#include <algorithm>
#include <set>

#include "core/base/status_macros.h"

namespace gdf::jobs {
namespace {

schedule::Cost CostOn(const config::JobSpec& spec, const config::ModelShape& shape,
                      uint64_t text_bytes, bool gpu) {
  return schedule::EstimateCost({.spec = &spec,
                                 .shape = shape,
                                 .dataset_bytes = text_bytes,
                                 .num_nodes = spec.nodes.max,
                                 .gpu = gpu,
                                 .gpus_per_node = spec.nodes.gpus});
}

}  // namespace

uint64_t TextBytes(const std::vector<wire::JobInput>& inputs) {
  uint64_t bytes = 0;
  for (const wire::JobInput& input : inputs) {
    if (input.name == "data" || input.name == "valid") bytes += input.size_bytes;
  }
  return bytes;
}

absl::StatusOr<config::ModelShape> WithAssumedVocab(const config::ModelShape& shape) {
  constexpr int64_t kAssumedVocab = 512;
  if (config::Vocab(shape) != 0) return shape;
  return config::WithVocab(shape, kAssumedVocab);
}

schedule::JobRequest MakeJobRequest(JobId id, const config::JobSpec& spec, uint64_t text_bytes) {
  schedule::JobRequest request;
  request.id = id;
  request.spec = &spec;
  if (spec.model.shape) {
    const config::ModelShape shape =
        WithAssumedVocab(*spec.model.shape).value_or(*spec.model.shape);
    request.host_memory_on_cpu = CostOn(spec, shape, text_bytes, false).host_memory;
    const schedule::Cost on_gpu = CostOn(spec, shape, text_bytes, true);
    request.host_memory_on_gpu = on_gpu.host_memory;
    request.gpu_memory = on_gpu.gpu_memory;
  } else {
    request.host_memory_on_cpu.Add("stated by the job", spec.nodes.memory_bytes);
    request.host_memory_on_gpu.Add("stated by the job", spec.nodes.memory_bytes);
    request.gpu_memory.Add("stated by the job", spec.nodes.gpu_memory_bytes);
  }
  return request;
}

schedule::JobRequest MakeJobRequest(const state::Job& job, const config::JobSpec& spec) {
  return MakeJobRequest(job.id, spec, TextBytes(job.inputs));
}

absl::StatusOr<std::vector<schedule::NodeOffer>> Offers(state::State& state,
                                                        const membership::Membership& membership) {
  GDF_ASSIGN_OR_RETURN(std::vector<state::Member> members, state.members());
  GDF_ASSIGN_OR_RETURN(std::vector<state::Job> jobs, state.jobs());
  const std::vector<NodeId> online = membership.Online();
  std::vector<schedule::NodeOffer> offers;
  for (const state::Member& member : members) {
    if (member.status != state::MemberStatus::kActive) continue;
    schedule::NodeOffer offer;
    offer.id = member.id;
    offer.name = member.profile.name;
    offer.contributor = member.roles.Has(trust::Role::kContributor);
    offer.alive = !member.profile.resources.paused && std::binary_search(online.begin(), online.end(), member.id);
    offer.total_memory_bytes = offer.free_memory_bytes = member.profile.resources.memory_bytes;
    offer.free_tasks = 1;
    for (const wire::GpuResource& gpu : member.profile.resources.gpus) {
      offer.gpus.push_back({gpu.name, gpu.memory_bytes, gpu.memory_bytes});
    }
    offers.push_back(std::move(offer));
  }
  std::set<NodeId> busy;
  for (const state::Job& job : jobs) {
    if (job.phase != state::JobPhase::kRunning) continue;
    busy.insert(job.members.begin(), job.members.end());
    busy.insert(job.recruits.begin(), job.recruits.end());
  }
  for (schedule::NodeOffer& offer : offers) {
    if (busy.contains(offer.id)) offer.free_tasks = 0;
  }
  return offers;
}

std::map<NodeId, schedule::Use> Uses(const std::vector<state::Job>& jobs, const schedule::QueuePolicy& policy, absl::Time now) {
  std::map<NodeId, schedule::Use> uses;
  for (const state::Job& job : jobs) {
    if (job.started_unix_ms == 0) continue;
    const bool running = job.phase == state::JobPhase::kRunning;
    const auto nodes = static_cast<int64_t>(job.members.size());
    const absl::Time end = running ? now : absl::FromUnixMillis(job.finished_unix_ms);
    schedule::Use& use = uses[job.owner];
    use.node_seconds += schedule::DecayedUse(nodes, absl::FromUnixMillis(job.started_unix_ms), end, now, policy.half_life);
    if (running) use.nodes += nodes;
  }
  return uses;
}

absl::StatusOr<schedule::Placement> Preview(state::State& state,
                                            const membership::Membership& membership,
                                            const schedule::JobRequest& job) {
  GDF_ASSIGN_OR_RETURN(std::vector<schedule::NodeOffer> offers, Offers(state, membership));
  return schedule::Place({job}, offers)[0];
}

}  // namespace gdf::jobs
