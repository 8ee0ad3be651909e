#include "gdfd/jobs/scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/name.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "gdfd/jobs/job_request.h"

namespace gdf::jobs {
namespace {

// An end that was not recorded, for want of disk, is tried again.
constexpr absl::Duration kEndAgain = absl::Seconds(10);

// When a running job is to be ended.
absl::StatusOr<absl::Time> OverdueAt(state::State& state, JobId id) {
  GDF_ASSIGN_OR_RETURN(const state::Job job, state.job(id));
  const absl::StatusOr<config::JobSpec> spec =
      config::ParseJobSpec(job.spec_yaml, ToString(id));
  // One that cannot be read any more ends where it is to run.
  if (!spec.ok() || spec->limits.max_wall_time == absl::ZeroDuration()) {
    return absl::InfiniteFuture();
  }
  return absl::FromUnixMillis(job.started_unix_ms) + spec->limits.max_wall_time;
}

// What a decision is recorded as; of a job at `epoch` that does not wait any more.
wire::CommandBody ToCommand(const schedule::Placement& placement, Epoch epoch) {
  if (placement.verdict == schedule::Verdict::kRefused) {
    wire::FinishJob finish;
    finish.job = placement.job;
    finish.epoch = epoch;
    finish.verdict = wire::Verdict::kFailed;
    finish.reason = SafeText(absl::StrCat("cannot be placed: ", placement.reason), wire::kMaxTextBytes);
    return finish;
  }
  wire::OpenEpoch open{placement.job, epoch.next(), {}, placement.lead, "placed"};
  for (const schedule::ChosenNode& node : placement.nodes) open.members.push_back(node.id);
  std::sort(open.members.begin(), open.members.end());
  return open;
}

bool StillFree(const schedule::Placement& placement, const std::vector<schedule::NodeOffer>& offers) {
  return absl::c_all_of(placement.nodes, [&](const schedule::ChosenNode& node) {
    const auto offer = absl::c_find_if(offers, [&](const schedule::NodeOffer& o) { return o.id == node.id; });
    return offer != offers.end() && offer->alive && offer->free_tasks > 0;
  });
}

}  // namespace

Scheduler::Scheduler(net::Transport& transport, state::State& state,
                     membership::Membership& membership)
    : transport_(transport),
      state_(state),
      membership_(membership),
      wake_(transport.executor()),
      absences_(transport.self(),
                [&transport](const NodeId& node) {
                  return node == transport.self() || transport.Connected(node);
                }),
      recruiter_(transport.executor().clock(), state, membership,
                 [this](const NodeId& node) { return membership_.IsOnline(node) || MayStillCome(node); },
                 [this](JobId job, const NodeId& member) { return absences_.Told(job, member); }),
      began_(transport.executor().clock().Monotonic()),
      tasks_(transport.executor()) {
  for (const NodeId& peer : transport.Peers()) seen_.insert(peer);
  state_watcher_ = state_.AddWatcher([this](uint64_t) { wake_.Push(false); });
  registrations_.push_back(
      transport_.WatchPeers([this](NodeId peer, bool up, const absl::Status&) {
        if (up) seen_.insert(peer);
        wake_.Push(true);
      }));
  registrations_.push_back(transport_.HandleCall(
      "jobs.request_epoch",
      [this](NodeId peer, Buffer request) { return ServeRequestEpoch(peer, std::move(request)); }));
  wake_.Push(true);
  tasks_.Spawn(Run());
}

Scheduler::~Scheduler() {
  registrations_.clear();
  state_.RemoveWatcher(state_watcher_);
}

std::string Scheduler::WaitingFor(JobId job) const {
  const auto it = pending_.find(job);
  return it == pending_.end() ? "" : it->second.waiting;
}

Task<void> Scheduler::Run() {
  while (true) {
    std::optional<bool> peers = co_await wake_.Pop(UntilNext());
    while (peers) {
      if (*peers) {  // whatever the state did not take may be taken now
        for (auto& [id, job] : pending_) job.refused = false;
        weighed_.reset();
      }
      if (wake_.empty()) break;
      peers = co_await wake_.Pop();
    }
    const absl::Status done = co_await Work();
    if (!done.ok()) Log(LogLevel::kError, "scheduling_failed", {{"why", done}});
  }
}

Task<absl::Status> Scheduler::Work() {
  if (!membership_.leading()) {
    pending_.clear();
    weighed_.reset();
    co_return absl::OkStatus();
  }
  GDF_CO_ASSIGN_OR_RETURN(std::vector<state::Job> jobs, state_.jobs());
  const absl::Status ended = co_await EndOverdue(jobs);
  const absl::Status told = co_await TellAbsences(jobs);
  absl::Status done = co_await PlacePending(jobs);
  done.Update(co_await recruiter_.Work(jobs, kept_));
  done.Update(ended);
  done.Update(told);
  co_return done;
}

absl::Time Scheduler::Now() const {
  return std::max(transport_.executor().clock().Now(),
                  absl::FromUnixMillis(state_.last_time_unix_ms()));
}

absl::Duration Scheduler::UntilNext() const {
  if (!membership_.leading()) return absl::InfiniteDuration();
  absl::Time overdue = absl::InfiniteFuture();
  for (const auto& [id, at] : overdue_at_) overdue = std::min(overdue, at);
  overdue = std::min(overdue, plan_again_);
  return std::min(overdue - Now(),
                  std::min(absences_.Next(), recruiter_.Next()) - transport_.executor().clock().Monotonic());
}

Task<absl::Status> Scheduler::EndOverdue(const std::vector<state::Job>& jobs) {
  std::map<JobId, absl::Time> running;
  for (const state::Job& job : jobs) {
    if (job.phase != state::JobPhase::kRunning) continue;
    const auto known = overdue_at_.find(job.id);
    if (known != overdue_at_.end()) {
      running.insert(*known);
    } else {
      GDF_CO_ASSIGN_OR_RETURN(running[job.id], OverdueAt(state_, job.id));
    }
  }
  overdue_at_ = std::move(running);
  absl::Status failed;
  for (auto& [id, at] : overdue_at_) {
    if (Now() < at) continue;
    at = Now() + kEndAgain;
    const absl::Status ended = co_await EndOverdue(id);
    if (!ended.ok()) failed = ended;
  }
  co_return failed;
}

Task<absl::Status> Scheduler::EndOverdue(JobId id) {
  GDF_CO_ASSIGN_OR_RETURN(state::Job job, state_.job(id));
  GDF_CO_ASSIGN_OR_RETURN(config::JobSpec spec, config::ParseJobSpec(job.spec_yaml, ToString(id)));
  wire::FinishJob finish;
  finish.job = id;
  finish.epoch = job.epoch;
  finish.verdict = wire::Verdict::kFailed;
  finish.reason = absl::StrCat("has run for ", HumanDuration(spec.limits.max_wall_time),
                               ", its limits.max_wall_time");
  finish.rounds_done = job.rounds_done;
  finish.theta = job.theta;
  absl::StatusOr<wire::CommandResult> ended = co_await membership_.ProposeChecked(std::move(finish));
  co_return ended.status();
}

Task<absl::Status> Scheduler::TellAbsences(const std::vector<state::Job>& jobs) {
  absl::Status failed;
  std::vector<wire::JobEvent> events =
      absences_.Update(jobs, transport_.executor().clock().Monotonic());
  for (wire::JobEvent& event : events) {
    absl::StatusOr<wire::CommandResult> told = co_await membership_.ProposeChecked(std::move(event));
    failed.Update(told.status());
  }
  co_return failed;
}

absl::StatusOr<Scheduler::Pending*> Scheduler::Read(JobId id) {
  GDF_ASSIGN_OR_RETURN(state::Job job, state_.job(id));
  absl::StatusOr<config::JobSpec> spec = config::ParseJobSpec(job.spec_yaml, ToString(id));
  Pending& pending = pending_[id];
  pending.epoch = job.epoch;
  pending.submitter = job.owner;
  pending.submitted = absl::FromUnixMillis(job.submitted_unix_ms);
  pending.readable = spec.status();
  if (spec.ok()) {
    pending.spec = *std::move(spec);
    pending.request = MakeJobRequest(job, pending.spec);
  }
  return &pending;
}

absl::StatusOr<bool> Scheduler::ReadPending(const std::vector<state::Job>& jobs) {
  const auto gone = std::erase_if(pending_, [&jobs](const auto& pending) {
    return absl::c_none_of(jobs, [&](const state::Job& job) { return job.id == pending.first; });
  });
  bool changed = gone > 0;
  for (const state::Job& job : jobs) {
    if (pending_.contains(job.id)) continue;
    GDF_RETURN_IF_ERROR(Read(job.id).status());
    changed = true;
  }
  return changed;
}

schedule::QueuePlan Scheduler::PlanFor(const std::vector<state::Job>& all, const std::vector<schedule::NodeOffer>& offers) {
  const schedule::QueuePolicy policy;
  std::vector<schedule::WaitingJob> waiting;
  std::vector<schedule::Placement> unreadable;
  for (const auto& [id, pending] : pending_) {
    if (pending.refused) continue;
    if (pending.readable.ok()) {
      waiting.push_back({&pending.request, pending.submitter, pending.submitted});
      continue;
    }
    schedule::Placement& refusal = unreadable.emplace_back();
    refusal.job = id;
    refusal.verdict = schedule::Verdict::kRefused;
    refusal.reason = std::string(pending.readable.message());
  }
  const absl::Time now = Now();
  schedule::QueuePlan plan = schedule::PlanQueue(waiting, offers, Uses(all, policy, now), policy, now);
  plan.placements.insert(plan.placements.begin(), unreadable.begin(), unreadable.end());
  return plan;
}

Task<absl::Status> Scheduler::PlacePending(const std::vector<state::Job>& all) {
  std::vector<state::Job> jobs;
  for (const state::Job& job : all) {
    if (job.phase == state::JobPhase::kFinished) losses_.erase(job.id);
    if (job.phase == state::JobPhase::kPending) jobs.push_back(job);
  }
  GDF_CO_ASSIGN_OR_RETURN(const bool others, ReadPending(jobs));
  if (jobs.empty()) {
    plan_again_ = absl::InfiniteFuture();
    kept_.clear();
    co_return absl::OkStatus();
  }
  GDF_CO_ASSIGN_OR_RETURN(std::vector<schedule::NodeOffer> offers, Offers(state_, membership_));
  // Jobs that wait go on waiting while the nodes, and they, are as they were when all were weighed last.
  if (weighed_ == offers && !others && Now() < plan_again_) co_return absl::OkStatus();
  schedule::QueuePlan plan = PlanFor(all, offers);
  weighed_ = std::move(offers);
  plan_again_ = plan.next.value_or(absl::InfiniteFuture());
  kept_ = plan.kept;
  const absl::Status carried = co_await Carry(std::move(plan));
  if (!carried.ok()) weighed_.reset();
  co_return carried;
}

Task<absl::Status> Scheduler::Carry(schedule::QueuePlan plan) {
  for (const schedule::Placement& placement : plan.placements) {
    if (placement.verdict != schedule::Verdict::kPending) continue;
    pending_.at(placement.job).waiting = placement.reason;
  }
  std::vector<schedule::NodeOffer> offers = *weighed_;
  for (const schedule::Placement& placement : plan.placements) {
    if (placement.verdict == schedule::Verdict::kPending) continue;
    if (!StillFree(placement, offers)) {  // somebody went, or was taken, meanwhile
      weighed_.reset();
      wake_.Push(false);
      break;
    }
    wire::CommandBody decision = ToCommand(placement, pending_.at(placement.job).epoch);
    absl::StatusOr<wire::CommandResult> result = co_await membership_.Propose(std::move(decision));
    if (!result.ok()) co_return result.status();
    if (result->status.ok()) {
      pending_.erase(placement.job);
      GDF_CO_ASSIGN_OR_RETURN(offers, Offers(state_, membership_));
      continue;
    }
    Pending& pending = pending_.at(placement.job);
    pending.waiting = std::string(result->status.message());
    pending.refused = true;
    weighed_.reset();  // others may have its nodes
    wake_.Push(false);
  }
  co_return absl::OkStatus();
}

bool Scheduler::MayStillCome(const NodeId& node) const {
  return !seen_.contains(node) &&
         transport_.executor().clock().Monotonic() - began_ < Absences::kGrace;
}

std::vector<NodeId> Scheduler::Staying(const state::Job& job, const NodeId& from,
                                       const std::vector<NodeId>& lost) {
  schedule::Losses::Group group{job.members, job.lead, {}, job.members.size()};
  std::vector<NodeId> known;
  for (const NodeId& member : job.members) {
    if (membership_.IsOnline(member) || MayStillCome(member)) group.online.push_back(member);
    if (absl::c_linear_search(lost, member)) known.push_back(member);
  }
  const absl::StatusOr<state::EpochsPast> past = state_.epochs_past(job.id);
  if (past.ok()) group.placed = past->most_members;
  auto& [epoch, losses] = losses_[job.id];
  if (std::exchange(epoch, job.epoch) != job.epoch) losses = {};
  const absl::Duration now = transport_.executor().clock().Monotonic();
  losses.Hear(from, known, now);
  return losses.Staying(group, now);
}

Task<absl::Status> Scheduler::RequestEpoch(NodeId from, wire::EpochCall call) {
  if (!membership_.leading()) {
    co_return absl::UnimplementedError("this coordinator does not lead");
  }
  GDF_CO_ASSIGN_OR_RETURN(state::Job job, state_.job(call.job));
  if (job.phase != state::JobPhase::kRunning) {
    co_return absl::FailedPreconditionError(
        absl::StrCat("job ", ToString(call.job), " is not running"));
  }
  if (job.IsRecruit(from)) {
    absl::Status heard = co_await recruiter_.Hear(job, from, call);
    wake_.Push(false);
    co_return heard;
  }
  if (!job.IsMember(from)) {
    co_return absl::PermissionDeniedError(
        absl::StrCat("you are no member of job ", ToString(call.job)));
  }
  if (call.current != job.epoch) co_return absl::OkStatus();  // somebody else asked first
  if (call.leaving == wire::Leaving::kPaused) {
    GDF_CO_RETURN_IF_ERROR(co_await recruiter_.Hear(job, from, call));
  }
  GDF_CO_ASSIGN_OR_RETURN(config::JobSpec spec,
                          config::ParseJobSpec(job.spec_yaml, ToString(job.id)));

  wire::OpenEpoch open{
      job.id, job.epoch.next(), {}, {}, SafeText(call.reason, wire::kMaxTextBytes)};
  open.members = recruiter_.WithReady(job, spec.nodes.max, Staying(job, from, call.lost));
  if (open.members == job.members) {
    co_return absl::UnavailableError(
        absl::StrCat("job ", ToString(job.id),
                     " keeps its nodes: they are online, or may still find this coordinator, and "
                     "one node's word does not remove another (",
                     call.reason, ")"));
  }
  // Fewer than the job's minimum: the same epoch goes on when they are back, and ends the job when
  // they are not.
  if (open.members.empty() || static_cast<int64_t>(open.members.size()) < spec.nodes.min) {
    co_return absl::UnavailableError(
        absl::StrCat("job ", ToString(job.id), " needs ", Counted(spec.nodes.min, "node"), " and has ",
                     open.members.size(), " left (", call.reason, ")"));
  }
  open.lead = absl::c_linear_search(open.members, job.lead) ? job.lead : open.members.front();
  // Who leaves says why itself; of others the lead says that they are out for good.
  const bool for_all = from == job.lead && call.leaving == wire::Leaving::kForGood;
  std::vector<NodeId> leaving;
  for (const NodeId& node : job.members) {
    const bool named = node == from || (for_all && absl::c_linear_search(call.lost, node));
    if (named && !absl::c_linear_search(open.members, node)) leaving.push_back(node);
  }
  absl::StatusOr<wire::CommandResult> opened = co_await membership_.ProposeChecked(std::move(open));
  if (!opened.ok() || call.leaving == wire::Leaving::kPaused) co_return opened.status();
  absl::Status heard;
  for (const NodeId& node : leaving) heard.Update(co_await recruiter_.Hear(job, node, call));
  co_return heard;
}

Task<absl::StatusOr<Buffer>> Scheduler::ServeRequestEpoch(NodeId peer, Buffer request) {
  GDF_CO_ASSIGN_OR_RETURN(wire::EpochCall call, wire::DecodeEpochCall(request.view()));
  GDF_CO_RETURN_IF_ERROR(co_await RequestEpoch(peer, std::move(call)));
  co_return Buffer();
}

}  // namespace gdf::jobs
