#include "gdfd/jobs/recruiter.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/name.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "gdfd/jobs/job_request.h"

namespace gdf::jobs {
namespace {

// A job that has its minimum and so few rounds left is over before a node has loaded it.
constexpr uint64_t kFewRounds = 2;

}  // namespace

Task<absl::Status> Recruiter::Record(JobId job, NodeId node, wire::RecruitAction action, std::string reason) {
  wire::Recruit recruit{job, node, action, SafeText(reason, wire::kMaxTextBytes)};
  absl::StatusOr<wire::CommandResult> result = co_await membership_.ProposeChecked(std::move(recruit));
  co_return result.status();
}

absl::StatusOr<Recruiter::Running*> Recruiter::Find(const state::Job& job) {
  const auto known = running_.find(job.id);
  if (known != running_.end()) return &known->second;
  GDF_ASSIGN_OR_RETURN(const state::Job whole, state_.job(job.id));
  GDF_ASSIGN_OR_RETURN(config::JobSpec spec, config::ParseJobSpec(whole.spec_yaml, ToString(job.id)));
  Running& running = running_[job.id];
  running.spec = std::move(spec);
  running.request = MakeJobRequest(whole, running.spec);
  return &running;
}

Task<absl::Status> Recruiter::Hear(state::Job job, NodeId from, wire::EpochCall call) {
  GDF_CO_ASSIGN_OR_RETURN(Running* const running, Find(job));
  if (absl::c_linear_search(call.lost, from)) {
    if (call.leaving == wire::Leaving::kPaused) running->gone.emplace(from, false);
    const bool failed = call.leaving == wire::Leaving::kFailed;
    const bool out = call.leaving == wire::Leaving::kForGood || (failed && ++running->failures[from] >= kMaxFailures);
    if (!out) co_return absl::OkStatus();
    co_return co_await Record(job.id, from, wire::RecruitAction::kExclude, std::move(call.reason));
  }
  running->ready.insert(from);
  co_return absl::OkStatus();
}

std::vector<NodeId> Recruiter::WithReady(const state::Job& job, int64_t max, std::vector<NodeId> staying) const {
  const auto running = running_.find(job.id);
  if (running == running_.end()) return staying;
  std::erase_if(staying, [&](const NodeId& node) { return running->second.gone.contains(node); });
  const size_t stay = staying.size();
  for (const NodeId& node : running->second.ready) {
    const bool joins = job.IsRecruit(node) && !absl::c_linear_search(staying, node) && present_(node);
    if (joins && static_cast<int64_t>(staying.size()) < max) staying.push_back(node);
  }
  if (staying.size() > stay) absl::c_sort(staying);
  return staying;
}

Task<absl::Status> Recruiter::Work(std::vector<state::Job> jobs, std::vector<NodeId> kept) {
  std::erase_if(jobs, [](const state::Job& job) { return job.phase != state::JobPhase::kRunning; });
  std::vector<JobId> ids;
  for (const state::Job& job : jobs) ids.push_back(job.id);
  absl::c_sort(ids);
  recruits_.Keep(ids);
  std::erase_if(running_, [&](const auto& entry) { return !absl::c_binary_search(ids, entry.first); });
  if (jobs.empty()) co_return absl::OkStatus();
  GDF_CO_RETURN_IF_ERROR(ReadPaused());
  absl::Status failed;
  std::vector<const state::Job*> short_of_nodes;
  for (const state::Job& job : jobs) {
    absl::StatusOr<Running*> running = Find(job);
    absl::Status done = running.status();
    if (running.ok()) done = co_await Settle(job, **running);
    failed.Update(done);
    if (done.ok() && (*running)->places > 0) short_of_nodes.push_back(&job);
  }
  if (short_of_nodes.empty()) co_return failed;
  GDF_CO_ASSIGN_OR_RETURN(std::vector<schedule::NodeOffer> offers, Offers(state_, membership_));
  for (schedule::NodeOffer& offer : offers) {
    if (absl::c_binary_search(kept, offer.id)) offer.free_tasks = 0;
  }
  const bool changed = weighed_ != offers || clock_.Monotonic() >= weigh_again_;
  weighed_ = std::move(offers);
  for (const state::Job* job : short_of_nodes) {
    Running& running = running_.at(job->id);
    if (changed || running.unfilled != running.places) failed.Update(co_await Call(*job, running));
  }
  weigh_again_ = Next();
  co_return failed;
}

absl::Status Recruiter::ReadPaused() {
  if (members_since_ == state_.members_since()) return absl::OkStatus();
  GDF_ASSIGN_OR_RETURN(const std::vector<state::Member> members, state_.members());
  members_since_ = state_.members_since();
  paused_.clear();
  for (const state::Member& member : members) {
    if (member.profile.resources.paused) paused_.insert(member.id);
  }
  return absl::OkStatus();
}

Task<absl::Status> Recruiter::Settle(state::Job job, Running& running) {
  running.places = 0;
  std::vector<NodeId> with_part = job.members;
  with_part.insert(with_part.end(), job.recruits.begin(), job.recruits.end());
  recruits_.Follow(job.id, with_part, clock_.Monotonic());
  std::erase_if(running.ready, [&](const NodeId& node) { return !job.IsRecruit(node); });
  std::erase_if(running.gone, [&](const auto& gone) {
    const bool resumed = gone.second && !paused_.contains(gone.first);
    return resumed || !job.IsMember(gone.first);
  });
  for (auto& [node, seen] : running.gone) seen = paused_.contains(node);
  std::vector<NodeId> wished = Wished(job, running);
  // Without whom no round may ever end.
  const bool replaces = absl::c_any_of(job.members, [&](const NodeId& member) {
    return (running.gone.contains(member) || lost_(job.id, member)) && !absl::c_linear_search(wished, member);
  });
  if (wished == job.members) {
    running.changes_after.reset();
  } else if (!running.changes_after && !replaces) {
    running.changes_after = job.rounds_done;
  } else if (replaces || job.rounds_done > *running.changes_after) {
    co_return co_await Regroup(std::move(job), std::move(wished));
  }

  const size_t present = static_cast<size_t>(absl::c_count_if(job.members, [&](const NodeId& member) {
    return !lost_(job.id, member) && !paused_.contains(member);
  }));
  const size_t max = static_cast<size_t>(running.spec.nodes.max);
  size_t places = max - std::min(max, present);
  for (const NodeId& node : job.recruits) {
    std::string why = !present_(node)          ? "it is not online"
                      : paused_.contains(node) ? "its owner has paused it"
                      : places == 0            ? "the job has all its nodes"
                                               : "";
    if (why.empty()) {
      --places;
      continue;
    }
    GDF_CO_RETURN_IF_ERROR(co_await Record(job.id, node, wire::RecruitAction::kDismiss, std::move(why)));
  }
  const bool near_end = present >= static_cast<size_t>(running.spec.nodes.min) &&
                        job.rounds_done + kFewRounds >= job.planned_rounds;
  if (!near_end) running.places = places;
  co_return absl::OkStatus();
}

std::vector<NodeId> Recruiter::Wished(const state::Job& job, const Running& running) const {
  std::vector<NodeId> there = job.members;
  std::erase_if(there, [&](const NodeId& member) { return paused_.contains(member) || lost_(job.id, member); });
  for (const std::vector<NodeId>& staying : {there, job.members}) {
    std::vector<NodeId> wished = WithReady(job, running.spec.nodes.max, staying);
    if (static_cast<int64_t>(wished.size()) >= std::max<int64_t>(running.spec.nodes.min, 1)) return wished;
  }
  return job.members;
}

Task<absl::Status> Recruiter::Regroup(state::Job job, std::vector<NodeId> members) {
  wire::OpenEpoch open{job.id, job.epoch.next(), std::move(members), job.lead, ""};
  if (!absl::c_linear_search(open.members, job.lead)) open.lead = open.members.front();
  const auto tell = [&open](const NodeId& node, absl::string_view what) {
    absl::StrAppend(&open.reason, open.reason.empty() ? "" : ", ", "node ", node.Short(), what);
  };
  for (const NodeId& node : open.members) {
    if (!job.IsMember(node)) tell(node, " joins");
  }
  for (const NodeId& node : job.members) {
    if (absl::c_linear_search(open.members, node)) continue;
    tell(node, paused_.contains(node) ? " is paused by its owner" : " has not been online for long");
  }
  open.reason = SafeText(open.reason, wire::kMaxTextBytes);
  absl::StatusOr<wire::CommandResult> opened = co_await membership_.ProposeChecked(std::move(open));
  co_return opened.status();
}

Task<absl::Status> Recruiter::Call(state::Job job, Running& running) {
  running.unfilled = running.places;
  schedule::Recruits::Vacancy vacancy{job.id, running.places, schedule::Able(running.request, *weighed_), {}};
  std::erase_if(vacancy.candidates, [&](const NodeId& node) {
    return job.HasPart(node) || job.IsExcluded(node);
  });
  if (vacancy.candidates.empty()) co_return absl::OkStatus();
  GDF_CO_ASSIGN_OR_RETURN(state::EpochsPast past, state_.epochs_past(job.id));
  vacancy.was_member = std::move(past.members);
  for (const NodeId& node : recruits_.Choose(vacancy, clock_.Monotonic())) {
    std::string why = absl::c_binary_search(vacancy.was_member, node) ? "it was a member before" : "there is a place";
    GDF_CO_RETURN_IF_ERROR(co_await Record(job.id, node, wire::RecruitAction::kCall, std::move(why)));
  }
  co_return absl::OkStatus();
}

}  // namespace gdf::jobs
