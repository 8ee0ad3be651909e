#include "gdfd/jobs/scheduler.h"

#include <algorithm>

#include "core/base/log.h"
#include "core/base/status_macros.h"

namespace gdf::jobs {
namespace {

schedule::Cost CostOn(const config::JobSpec& spec, const config::ModelShape& shape, uint64_t input_bytes, bool gpu) {
  schedule::CostInput input;
  input.spec = &spec;
  input.shape = shape;
  input.dataset_bytes = input_bytes;
  input.num_nodes = spec.nodes.max;
  input.gpu = gpu;
  return schedule::EstimateCost(input);
}

}  // namespace

schedule::JobRequest MakeJobRequest(JobId id, const config::JobSpec& spec, uint64_t input_bytes) {
  schedule::JobRequest request;
  request.id = id;
  request.spec = &spec;
  if (spec.model.shape) {
    config::ModelShape shape = *spec.model.shape;
    if (config::Vocab(shape) == 0) {
      if (absl::StatusOr<config::ModelShape> sized = config::WithVocab(shape, kAssumedVocab); sized.ok()) shape = *sized;
    }
    request.host_memory_on_cpu = CostOn(spec, shape, input_bytes, false).host_memory;
    const schedule::Cost on_gpu = CostOn(spec, shape, input_bytes, true);
    request.host_memory_on_gpu = on_gpu.host_memory;
    request.gpu_memory = on_gpu.gpu_memory;
  } else {
    request.host_memory_on_cpu.Add("stated by the job", spec.nodes.memory_bytes);
    request.host_memory_on_gpu.Add("stated by the job", spec.nodes.memory_bytes);
    request.gpu_memory.Add("stated by the job", spec.nodes.gpu_memory_bytes);
  }
  return request;
}

Scheduler::Scheduler(net::Transport& transport, state::State& state, membership::Membership& membership)
    : transport_(transport), state_(state), membership_(membership), wake_(transport.executor()),
      tasks_(transport.executor()) {
  state_watcher_ = state_.AddWatcher([this](uint64_t) { wake_.Push(true); });
  registrations_.push_back(transport_.WatchPeers([this](NodeId, bool, const absl::Status&) { wake_.Push(true); }));
  registrations_.push_back(transport_.HandleCall("jobs.request_epoch", [this](NodeId peer, Buffer request) {
    return ServeRequestEpoch(peer, std::move(request));
  }));
  wake_.Push(true);
  tasks_.Spawn(Run());
}

Scheduler::~Scheduler() {
  registrations_.clear();
  state_.RemoveWatcher(state_watcher_);
}

std::string Scheduler::WaitingFor(JobId job) const {
  const auto it = waiting_.find(job);
  return it == waiting_.end() ? "" : it->second;
}

Task<void> Scheduler::Run() {
  while (true) {
    co_await wake_.Pop();
    while (!wake_.empty()) co_await wake_.Pop();
    const absl::Status placed = co_await PlacePending();
    if (!placed.ok()) Log(LogLevel::kError, "scheduling_failed", {{"why", placed}});
  }
}

absl::StatusOr<std::vector<schedule::NodeOffer>> Scheduler::Offers() {
  GDF_ASSIGN_OR_RETURN(std::vector<state::Member> members, state_.members());
  GDF_ASSIGN_OR_RETURN(std::vector<state::Job> jobs, state_.jobs());
  const std::vector<NodeId> online = membership_.Online();
  std::vector<schedule::NodeOffer> offers;
  for (const state::Member& member : members) {
    if (member.status != state::MemberStatus::kActive) continue;
    schedule::NodeOffer offer;
    offer.id = member.id;
    offer.name = member.profile.name;
    offer.contributor = member.roles.Has(trust::Role::kContributor);
    offer.alive = std::binary_search(online.begin(), online.end(), member.id);
    offer.total_memory_bytes = offer.free_memory_bytes = member.profile.resources.memory_bytes;
    offer.free_tasks = 1;
    for (const wire::GpuResource& gpu : member.profile.resources.gpus) {
      offer.gpus.push_back({gpu.name, gpu.memory_bytes, gpu.memory_bytes});
    }
    offers.push_back(std::move(offer));
  }
  for (const state::Job& job : jobs) {
    if (job.phase != state::JobPhase::kRunning) continue;
    for (schedule::NodeOffer& offer : offers) {
      if (std::find(job.members.begin(), job.members.end(), offer.id) == job.members.end()) continue;
      offer.free_tasks = std::max<int64_t>(0, offer.free_tasks - 1);
    }
  }
  return offers;
}

absl::StatusOr<schedule::Placement> Scheduler::Preview(const schedule::JobRequest& job) {
  GDF_ASSIGN_OR_RETURN(std::vector<schedule::NodeOffer> offers, Offers());
  return schedule::Place({job}, offers)[0];
}

Task<absl::Status> Scheduler::PlacePending() {
  GDF_CO_ASSIGN_OR_RETURN(std::vector<state::Job> jobs, state_.jobs());
  std::reverse(jobs.begin(), jobs.end());  // oldest first
  std::map<JobId, std::string> waiting;
  for (const state::Job& listed : jobs) {
    if (listed.phase != state::JobPhase::kPending) continue;
    GDF_CO_ASSIGN_OR_RETURN(state::Job job, state_.job(listed.id));
    absl::StatusOr<config::JobSpec> spec = config::ParseJobSpec(job.spec_yaml, ToString(job.id));
    schedule::Placement placement;
    if (spec.ok()) {
      uint64_t input_bytes = 0;
      for (const wire::JobInput& input : job.inputs) input_bytes += input.size_bytes;
      GDF_CO_ASSIGN_OR_RETURN(placement, Preview(MakeJobRequest(job.id, *spec, input_bytes)));
    } else {
      placement.verdict = schedule::Verdict::kRefused;
      placement.reason = std::string(spec.status().message());
    }
    wire::CommandBody decision;
    if (placement.verdict == schedule::Verdict::kPending) {
      waiting[job.id] = placement.reason;
      continue;
    }
    if (placement.verdict == schedule::Verdict::kRefused) {
      decision = wire::FinishJob{job.id, job.epoch, wire::Verdict::kFailed,
                                 absl::StrCat("cannot be placed: ", placement.reason).substr(0, wire::kMaxTextBytes),
                                 Digest{}, 0};
    } else {
      wire::OpenEpoch open{job.id, job.epoch.next(), {}, placement.lead, "placed"};
      for (const schedule::ChosenNode& node : placement.nodes) open.members.push_back(node.id);
      std::sort(open.members.begin(), open.members.end());
      decision = std::move(open);
    }
    GDF_CO_ASSIGN_OR_RETURN(wire::CommandResult result, co_await membership_.Propose(std::move(decision)));
    if (!result.status.ok()) waiting[job.id] = std::string(result.status.message());
  }
  waiting_ = std::move(waiting);
  co_return absl::OkStatus();
}

Task<absl::Status> Scheduler::RequestEpoch(NodeId from, wire::EpochCall call) {
  GDF_CO_ASSIGN_OR_RETURN(state::Job job, state_.job(call.job));
  if (job.phase != state::JobPhase::kRunning) {
    co_return absl::FailedPreconditionError(absl::StrCat("job ", ToString(call.job), " is not running"));
  }
  if (std::find(job.members.begin(), job.members.end(), from) == job.members.end()) {
    co_return absl::PermissionDeniedError(absl::StrCat("you are no member of job ", ToString(call.job)));
  }
  if (call.current != job.epoch) co_return absl::OkStatus();  // somebody else asked first
  GDF_CO_ASSIGN_OR_RETURN(config::JobSpec spec, config::ParseJobSpec(job.spec_yaml, ToString(job.id)));

  wire::OpenEpoch open{job.id, job.epoch.next(), {}, {}, call.reason};
  for (const NodeId& member : job.members) {
    const bool lost = std::find(call.lost.begin(), call.lost.end(), member) != call.lost.end();
    if (!lost && membership_.IsOnline(member)) open.members.push_back(member);
  }
  const auto has = [&](const NodeId& id) {
    return std::find(open.members.begin(), open.members.end(), id) != open.members.end();
  };
  // Fewer than the job's minimum: the same epoch goes on when they are back, and ends the job when they are not.
  if (open.members.empty() || static_cast<int64_t>(open.members.size()) < spec.nodes.min) {
    co_return absl::UnavailableError(absl::StrCat("job ", ToString(job.id), " needs ", spec.nodes.min, " nodes and has ",
                                                  open.members.size(), " left (", call.reason, ")"));
  }
  open.lead = has(job.lead) ? job.lead : has(from) ? from : open.members.front();
  absl::StatusOr<wire::CommandResult> opened = co_await membership_.ProposeChecked(std::move(open));
  co_return opened.status();
}

Task<absl::StatusOr<Buffer>> Scheduler::ServeRequestEpoch(NodeId peer, Buffer request) {
  GDF_CO_ASSIGN_OR_RETURN(wire::EpochCall call, wire::DecodeEpochCall(request.view()));
  GDF_CO_RETURN_IF_ERROR(co_await RequestEpoch(peer, std::move(call)));
  co_return Buffer();
}

}  // namespace gdf::jobs
