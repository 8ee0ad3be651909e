#include "gdfd/jobs/past_speed.h"

#include <algorithm>
#include <vector>

#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "gdfd/jobs/job_request.h"

namespace gdf::jobs {
namespace {

constexpr size_t kNewestJobs = 50;
constexpr uint64_t kLastRounds = 16;

// The model of a past job, with the vocabulary that planning assumes; absent when it is not known.
std::optional<config::ModelShape> ShapeOf(const config::JobSpec& past, const config::JobSpec& spec,
                                          const config::ModelShape& shape) {
  if (!past.model.shape) {
    const bool same = past.model.from && spec.model.from && *past.model.from == *spec.model.from;
    return same ? std::optional(shape) : std::nullopt;
  }
  absl::StatusOr<config::ModelShape> sized = WithAssumedVocab(*past.model.shape);
  return sized.ok() ? std::optional(*std::move(sized)) : std::nullopt;
}

// Where a job that leaves it to the nodes ran: on GPUs where its members have them.
absl::StatusOr<bool> RanOnGpu(state::State& state, const state::Job& job, const config::JobSpec& spec) {
  if (spec.nodes.device != config::Device::kAuto) return spec.nodes.device == config::Device::kGpu;
  for (const NodeId& id : job.members) {
    absl::StatusOr<state::Member> member = state.member(id);
    if (!member.ok()) return member.status();
    if (member->profile.resources.gpus.empty()) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::optional<PastSpeed>> FindPastSpeed(state::State& state, const config::JobSpec& spec,
                                                       const config::ModelShape& shape, bool gpu) {
  GDF_ASSIGN_OR_RETURN(const std::vector<state::Job> jobs, state.jobs());
  for (size_t i = 0; i < std::min(jobs.size(), kNewestJobs); ++i) {
    if (jobs[i].rounds_done == 0 || jobs[i].members.empty()) continue;
    GDF_ASSIGN_OR_RETURN(const state::Job job, state.job(jobs[i].id));
    // One that cannot be read any more says nothing.
    const absl::StatusOr<config::JobSpec> past = config::ParseJobSpec(job.spec_yaml, ToString(job.id));
    if (!past.ok()) continue;
    const std::optional<config::ModelShape> past_shape = ShapeOf(*past, spec, shape);
    if (!past_shape) continue;
    GDF_ASSIGN_OR_RETURN(const bool ran_on_gpu, RanOnGpu(state, job, *past));
    if (ran_on_gpu != gpu) continue;
    const schedule::Cost cost = schedule::EstimateCost(
        {.spec = &*past, .shape = *past_shape, .num_nodes = static_cast<int64_t>(job.members.size())});
    const uint64_t first = job.rounds_done - std::min(job.rounds_done, kLastRounds);
    GDF_ASSIGN_OR_RETURN(const std::vector<state::RoundRecord> records, state.rounds(job.id, RoundId{first}));
    std::vector<wire::RoundMetrics> rounds;
    for (const state::RoundRecord& record : records) rounds.push_back(record.metrics);
    const std::optional<schedule::Speed> speed = schedule::MeasuredSpeed(cost, rounds);
    if (speed) return PastSpeed{job.id, *speed};
  }
  return std::nullopt;
}

}  // namespace gdf::jobs
