// SimJob's coordinator: as gdfd's Scheduler and State.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/sim/invariants.h"
#include "tests/sim/sim_job.h"

namespace gdf::sim {

class SimJob::NodeCoordinator final : public rounds::Coordinator {
 public:
  NodeCoordinator(SimJob& job, NodeId self) : job_(job), self_(self) {}

  Task<absl::Status> RequestEpoch(rounds::EpochRequest request) override {
    co_await Pass();
    const absl::Status status = job_.OnRequestEpoch(self_, request);
    co_await Pass();
    co_return status;
  }
  Task<absl::Status> ReportJob(wire::ReportJob report) override {
    co_await Pass();
    job_.Say(absl::StrCat("round ", report.round.value, " reported by node ", job_.IndexOf(self_)));
    if (job_.on_report_) job_.on_report_(report);
    co_await Pass();
    if (report.epoch == job_.epoch().epoch) {
      job_.reports_.push_back(std::move(report));
      job_.TakeBack();
    }
    co_await Pass();
    co_return absl::OkStatus();
  }
  Task<absl::Status> FinishJob(wire::FinishJob finish) override {
    co_await Pass();
    const absl::Status status = job_.OnFinish(self_, finish);
    co_await Pass();
    co_return status;
  }
  Task<absl::Status> RollBackJob(wire::RollBackJob) override {
    co_return absl::FailedPreconditionError("nothing is kept for people here");
  }
  Task<absl::Status> ReportEvent(wire::JobEvent event) override {
    // What is told there is so from now on, whenever it is heard of here.
    if (absl::StrContains(event.text, "are rolled back")) job_.invariants_->TellRolledBack();
    co_await Pass();
    job_.Say(absl::StrCat("node ", job_.IndexOf(self_), ": ", event.text));
    job_.events_.push_back(std::move(event));
    co_return absl::OkStatus();
  }
  absl::StatusOr<std::vector<NodeId>> MembersOf(JobId, Epoch epoch) override { return job_.MembersOf(epoch); }
  uint64_t RecordedRounds(JobId) override {
    return job_.reports_.empty() ? 0 : job_.reports_.back().round.value + 1;
  }
  std::vector<std::pair<RoundId, double>> RecordedLosses(JobId, size_t count) override {
    std::vector<std::pair<RoundId, double>> losses;
    const size_t first = job_.reports_.size() - std::min(job_.reports_.size(), count);
    for (size_t i = first; i < job_.reports_.size(); ++i) {
      const wire::ReportJob& report = job_.reports_[i];
      if (report.metrics.train_loss) losses.emplace_back(report.round, *report.metrics.train_loss);
    }
    return losses;
  }
  bool IsMember(NodeId node) override { return job_.put_out_.count(job_.IndexOf(node)) == 0; }
  std::string NameOf(NodeId node) override { return absl::StrCat("node", job_.IndexOf(node)); }
  bool SeesOffline(NodeId node) override { return job_.sees_offline_(job_.IndexOf(node)); }

 private:
  Task<void> Pass() { return Sleep(job_.nodes_[static_cast<size_t>(job_.IndexOf(self_))]->executor, job_.Delay()); }

  SimJob& job_;
  const NodeId self_;
};

std::unique_ptr<rounds::Coordinator> SimJob::CoordinatorOf(const NodeId& node) {
  return std::make_unique<NodeCoordinator>(*this, node);
}

absl::Status SimJob::OnRequestEpoch(const NodeId& from, const rounds::EpochRequest& request) {
  if (finish_) return absl::FailedPreconditionError("the job is not running");
  const wire::EpochRecord& now = epoch();
  if (!now.Has(from)) return absl::PermissionDeniedError("no member of the job");
  if (request.current != now.epoch) return absl::OkStatus();  // somebody else asked first
  schedule::Losses::Group group{now.members, now.lead, {}, nodes_.size()};
  for (const NodeId& member : now.members) {
    if (Up(IndexOf(member))) group.online.push_back(member);
  }
  losses_.Hear(from, request.lost, executor_.Monotonic());
  wire::EpochRecord next{now.epoch.next(), {}, losses_.Staying(group, executor_.Monotonic())};
  AddReturned(next.members);
  if (next.members == now.members) return absl::UnavailableError("the job keeps its nodes");
  if (next.members.empty() || static_cast<int>(next.members.size()) < options_.min_nodes) {
    return absl::UnavailableError(absl::StrCat("the job needs ", options_.min_nodes, " nodes and has ",
                                               next.members.size(), " left"));
  }
  next.lead = next.Has(now.lead) ? now.lead : next.members.front();
  for (const NodeId& node : request.lost) {
    const bool for_good = request.leaving == wire::Leaving::kForGood && (node == from || from == now.lead);
    if (for_good && !next.Has(node)) excluded_[node] = request.reason;
  }
  Open(std::move(next), absl::StrCat("asked for by node ", IndexOf(from), ": ", request.reason));
  return absl::OkStatus();
}

void SimJob::Announce() {
  for (int i = 0; i < size(); ++i) {
    nodes_[i]->executor.PostAfter(Delay(), [this, i] {
      Node& node = *nodes_[i];
      if (node.transport && node.instance && node.restored) Tell(node);
    });
  }
}

void SimJob::AddReturned(std::vector<NodeId>& members) const {
  for (const auto& node : nodes_) {
    const bool there = node->transport && node->instance && node->restored && node->stands_by && !node->ended &&
                       excluded_.count(node->id) == 0;
    if (there && !absl::c_linear_search(members, node->id)) members.push_back(node->id);
  }
  absl::c_sort(members, [this](const NodeId& a, const NodeId& b) { return IndexOf(a) < IndexOf(b); });
}

void SimJob::TakeBack() {
  if (finish_) return;
  wire::EpochRecord next{epoch().epoch.next(), epoch().lead, epoch().members};
  AddReturned(next.members);
  if (next.members.size() > epoch().members.size()) Open(std::move(next), "nodes are back");
}

void SimJob::Open(wire::EpochRecord next, const std::string& why) {
  Say(absl::StrCat("epoch ", next.epoch.value, " of ", next.members.size(), " led by node ", IndexOf(next.lead), ": ", why));
  epochs_.push_back(std::move(next));
  losses_ = {};
  Announce();
}

absl::Status SimJob::OnFinish(const NodeId& from, const wire::FinishJob& finish) {
  if (finish_ || finish.epoch != epoch().epoch || from != epoch().lead) {
    return absl::FailedPreconditionError("not the running epoch's lead");
  }
  Say(absl::StrCat("the job ", wire::ToString(finish.verdict) == "failed" ? "failed: " : "succeeded", finish.reason));
  finish_ = finish;
  const bool ok = finish.verdict == wire::Verdict::kSucceeded;
  executor_.PostAfter(ok ? absl::Seconds(60) : Delay(), [this] { DropInstances(); });
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NodeId>> SimJob::MembersOf(Epoch epoch) const {
  for (const wire::EpochRecord& record : epochs_) {
    if (record.epoch == epoch) return record.members;
  }
  return absl::NotFoundError(absl::StrCat("epoch ", epoch.value, " was not opened"));
}

}  // namespace gdf::sim
