#include "core/rounds/round_lead.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/rounds/round_name.h"

namespace gdf::rounds {
namespace {

constexpr int kMaxBackoff = 6;       // a failed round is tried again after 1, 2, 4, ... 64 times the retry time
constexpr size_t kLossesToLearn = 2 * schedule::Anomalies::kHistory;  // that a lead begins with
constexpr int kFailuresToTell = 2;   // of rounds, until it is said that the job waits: one may be a node that is back at once

// The job cannot go on with these deltas, this disk or this state, or has waited as long as it may.
bool IsFinal(const absl::Status& status) {
  return absl::IsInvalidArgument(status) || absl::IsDeadlineExceeded(status) || absl::IsDataLoss(status) || absl::IsInternal(status) ||
         absl::IsPermissionDenied(status);
}

}  // namespace

RoundLead::RoundLead(JobMember::Impl& member, wire::EpochRecord epoch)
    : member_(member),
      env_(member.env()),
      epoch_(std::move(epoch)),
      summaries_(env_.executor),
      scope_(env_.executor),
      tells_(env_.executor),
      planned_(env_.executor) {}

absl::Duration RoundLead::Now() const { return env_.executor.clock().Monotonic(); }

uint64_t RoundLead::TotalRounds() const { return static_cast<uint64_t>(config::NumRounds(env_.spec)); }

uint64_t RoundLead::Fragment() const { return position_.round.value % static_cast<uint64_t>(env_.spec.rounds.fragments); }

wire::RoundTag RoundLead::Tag() const { return {env_.job, epoch_.epoch, position_.round, attempt_}; }

uint64_t RoundLead::MaxTokens() const {
  const config::RoundSteps steps = config::StepsOfRound(env_.spec, static_cast<int64_t>(position_.round.value));
  // The delay of the round before is reported with this one.
  const int64_t most = steps.until - steps.from + env_.spec.rounds.delay_steps;
  const double tokens = static_cast<double>(most) * static_cast<double>(env_.loaded.tokens_per_step);
  return tokens < static_cast<double>(wire::kMaxRoundTokens) ? static_cast<uint64_t>(tokens) : wire::kMaxRoundTokens;
}

std::vector<NodeId> RoundLead::Alive() const {
  std::vector<NodeId> nodes;
  for (const NodeId& node : epoch_.members) {
    if (alive_.count(node) > 0) nodes.push_back(node);
  }
  return nodes;
}

void RoundLead::Lose(const NodeId& node, const absl::Status& why) {
  if (alive_.erase(node) == 0) return;
  const bool down = KnownDown(node) && env_.coordinator.IsMember(node);
  lost_[node] = {why, Now() + (down ? env_.timings.reconnect : absl::ZeroDuration())};
  if (down) tells_.Spawn(Knock(node));
  member_.Event(wire::Severity::kWarning,
                absl::StrCat(RoundName(position_.round), " lost node ", node.Short(), ": ", why.message()));
}

Task<void> RoundLead::Knock(NodeId node) {
  const wire::Enter enter{env_.job, epoch_};
  for (auto it = lost_.find(node); it != lost_.end() && Now() < it->second.until;
       it = lost_.find(node)) {
    const Reply reply = co_await Ask(node, enter, env_.timings.reconnect);
    it = lost_.find(node);
    if (it == lost_.end()) co_return;
    it->second.answers = reply.ok();
    if (reply.ok()) co_return;
    if (!env_.coordinator.IsMember(node)) it->second.until = Now();
    co_await Sleep(env_.executor, env_.timings.retry);
  }
}

bool RoundLead::KnownDown(const NodeId& node) const {
  if (node == env_.transport.self() || env_.transport.Connected(node)) return false;
  return env_.transport.NobodyListens(node) || env_.coordinator.SeesOffline(node);
}

bool RoundLead::AnyGivenUp() const {
  return std::any_of(lost_.begin(), lost_.end(),
                     [&](const auto& item) { return item.second.until <= Now(); });
}

void RoundLead::TakeBack() {
  for (auto it = lost_.begin(); it != lost_.end();) {
    const NodeId node = it->first;
    if (!it->second.answers) {
      ++it;
      continue;
    }
    it = lost_.erase(it);
    alive_.insert(node);
    member_.Event(wire::Severity::kInfo,
                  absl::StrCat(RoundName(position_.round), " has node ", node.Short(), " again"));
  }
}

Task<void> RoundLead::AwaitLost() {
  for (TakeBack(); std::any_of(lost_.begin(), lost_.end(),
                               [&](const auto& item) { return item.second.until > Now(); });
       TakeBack()) {
    co_await Sleep(env_.executor, env_.timings.retry);
  }
}

size_t RoundLead::Quorum() const {
  return std::max(epoch_.majority(), static_cast<size_t>(env_.spec.nodes.min));
}

absl::Status RoundLead::CheckMajority() const {
  const size_t need = Quorum();
  if (alive_.size() >= need) return absl::OkStatus();
  std::string text = absl::StrCat(RoundName(position_.round), " has ", alive_.size(), " of ",
                                  epoch_.members.size(), " members, needs ", need);
  for (const auto& [node, loss] : lost_) {
    absl::StrAppend(&text, "; lost node ", node.Short(), " (", loss.why.message(), ")");
  }
  return absl::UnavailableError(text);
}

// --- Life ---

Task<void> RoundLead::Run() {
  scope_.Spawn(ReportLoop());
  const absl::Status verdict = co_await Drive();
  const absl::Status finished = co_await Finish(verdict);
  member_.End(finished);
}

// Every failure that is not final is followed by a new beginning of the epoch, for as long as rounds get committed.
Task<absl::Status> RoundLead::Drive() {
  progress_at_ = Now();
  if (!member_.anomalies().knows_model()) {
    // What is wrong with them the next round says again.
    for (const auto& [round, loss] : env_.coordinator.RecordedLosses(env_.job, kLossesToLearn)) member_.anomalies().JudgeModel(round, loss);
  }
  absl::Status status = co_await EnterEpoch();
  while (!IsFinal(status) && (!status.ok() || position_.round.value < TotalRounds())) {
    if (status.ok()) {
      member_.set_activity("leading");
      TakeBack();
      status = co_await RunRound();
      if (!gone_wrong_.ok()) co_return co_await GoBack(gone_wrong_);
      if (!at_fault_.empty()) co_await TakeOut();
      if (status.ok() && AnyGivenUp()) status = absl::UnavailableError("members were lost");
      continue;
    }
    const absl::Duration idle = Now() - progress_at_;
    if (idle > 2 * env_.spec.rounds.round_deadline + env_.timings.majority) {
      co_return absl::DeadlineExceededError(absl::StrCat("no round was committed for ", HumanDuration(idle),
                                                         "; last: ", status.message()));
    }
    status = co_await Recover(status);
  }
  co_return status;
}

// Somebody is gone: the coordinators are asked for an epoch without them, which ends this lead. When none comes, the
// job goes on with whoever is there, as long as that is a majority.
Task<absl::Status> RoundLead::Recover(absl::Status why) {
  for (const NodeId& node : Alive()) {
    if (node != env_.transport.self()) Tell(node, wire::Abort{Tag(), std::string(why.message())});
  }
  if (!lost_.empty()) member_.set_activity("waiting for lost members");
  co_await AwaitLost();
  const absl::Duration backoff = env_.timings.retry * (1 << std::min(failures_++, kMaxBackoff));
  if (!lost_.empty()) {
    member_.set_activity("asking for a new epoch");
    co_await AwaitReports();
    EpochRequest request{env_.job, epoch_.epoch, {}, ""};
    for (const auto& [node, loss] : lost_) {
      absl::StrAppend(&request.reason, request.lost.empty() ? "" : "; ", "lost node ", node.Short(),
                      " (", loss.why.message(), ")");
      request.lost.push_back(node);
    }
    const absl::Status asked = co_await env_.coordinator.RequestEpoch(std::move(request));
    if (!asked.ok()) Log(LogLevel::kWarning, "epoch_request_failed", {{"job", ToString(env_.job)}, {"error", asked}});
    if (!asked.ok() && failures_ == kFailuresToTell) {
      member_.Event(wire::Severity::kWarning, absl::StrCat("waiting: ", asked.message()));
    }
    co_await Sleep(env_.executor, asked.ok() ? env_.timings.epoch : backoff);
  } else {
    Log(LogLevel::kWarning, "round_failed", {{"job", ToString(env_.job)}, {"error", why}});
    co_await Sleep(env_.executor, backoff);
  }
  const absl::Status entered = co_await EnterEpoch();
  co_return entered;
}

Task<void> RoundLead::AwaitReports() {
  const absl::Duration give_up = Now() + env_.timings.call;
  while (unreported_ > 0 && Now() < give_up) co_await Sleep(env_.executor, env_.timings.retry);
}

// One a time: the epoch without it ends this lead. A job that cannot do without the node keeps it, and its rounds go on
// without its deltas.
Task<void> RoundLead::TakeOut() {
  const auto [node, why] = *at_fault_.begin();
  at_fault_.clear();
  co_await AwaitReports();
  EpochRequest request{env_.job, epoch_.epoch, {node}, why, wire::Leaving::kForGood};
  const absl::Status asked = co_await env_.coordinator.RequestEpoch(std::move(request));
  if (asked.ok()) {
    co_await Sleep(env_.executor, env_.timings.epoch);
  } else {
    Log(LogLevel::kWarning, "node_stays", {{"job", ToString(env_.job)}, {"node", node.Short()}, {"why", asked}});
  }
}

Task<absl::Status> RoundLead::GoBack(absl::Status why) {
  if (!env_.roll_back) co_return why;
  const std::optional<RoundId> newest = member_.anomalies().last_good();
  absl::Status sent = absl::FailedPreconditionError("no round before was as it should be");
  if (newest && newest->value > 0) {
    member_.set_activity("going back");
    co_await AwaitReports();
    const absl::Duration give_up = Now() + env_.timings.majority;
    do {
      sent = co_await env_.roll_back(epoch_.epoch, *newest, std::string(why.message()));
      co_await Sleep(env_.executor, sent.ok() ? env_.timings.epoch : env_.timings.retry);
    } while ((sent.ok() || absl::IsUnavailable(sent)) && Now() < give_up);
  }
  co_return absl::Status(why.code(), absl::StrCat(why.message(), "; it cannot go back: ", sent.message()));
}

// Tells the coordinators, then the members.
Task<absl::Status> RoundLead::Finish(absl::Status verdict) {
  summaries_.Close();
  while (scope_.size() > 0) co_await Sleep(env_.executor, env_.timings.retry);
  if (verdict.ok() && !gone_wrong_.ok()) verdict = co_await GoBack(gone_wrong_);  // by the last round
  if (verdict.ok()) verdict = co_await member_.SaveResult();
  wire::FinishJob finish;
  finish.job = env_.job;
  finish.epoch = epoch_.epoch;
  finish.verdict = verdict.ok() ? wire::Verdict::kSucceeded : wire::Verdict::kFailed;
  finish.reason = std::string(verdict.message());
  finish.theta = position_.theta;
  finish.rounds_done = position_.round.value;
  const absl::Duration give_up = Now() + env_.timings.majority;
  while (true) {
    const absl::Status told = co_await env_.coordinator.FinishJob(finish);
    if (told.ok() || !absl::IsUnavailable(told)) break;
    if (Now() > give_up) co_return Annotate(told, "the job's end could not be reported");
    co_await Sleep(env_.executor, env_.timings.reconnect);
  }
  const wire::EndJob end{Tag(), std::string(verdict.message())};
  const auto same = [end](const NodeId&) { return end; };
  Replies replies = co_await AskAll(Alive(), same, env_.timings.call);
  co_return verdict;
}

// --- Asking ---

Task<RoundLead::Reply> RoundLead::Ask(NodeId node, wire::RoundRequest request, absl::Duration timeout) {
  if (node == env_.transport.self()) {
    Reply reply = co_await member_.CallLocal(std::move(request));
    co_return reply;
  }
  const Buffer encoded = wire::EncodeRoundRequest(request);
  const absl::Duration deadline = Now() + timeout;
  absl::Duration reachable_at = Now();
  while (true) {
    if (!env_.coordinator.IsMember(node)) {
      co_return absl::PermissionDeniedError(absl::StrCat("node ", node.Short(), " is out of the network"));
    }
    const absl::Duration called_at = Now();
    const bool connected = env_.transport.Connected(node);
    absl::StatusOr<Buffer> reply = co_await env_.transport.Call(node, JobMember::Method(env_.job), encoded, deadline - called_at);
    if (reply.ok()) {
      co_return wire::DecodeRoundReply(reply->span());
    }
    // A request may be repeated: members answer a known one from what they hold.
    const bool again = absl::IsUnavailable(reply.status()) || absl::IsUnimplemented(reply.status());
    if (Now() - called_at > env_.timings.reconnect) reachable_at = Now();  // it had answered until then
    if (KnownDown(node)) co_return reply.status();
    const bool broke = connected && !env_.transport.Connected(node);
    if (broke && again && Now() < deadline) continue;  // by dialling at once
    if (!again || Now() - reachable_at >= env_.timings.reconnect || Now() + env_.timings.retry >= deadline) {
      co_return reply.status();
    }
    co_await Sleep(env_.executor, env_.timings.retry);
  }
}

void RoundLead::Tell(NodeId node, wire::Abort abort) {
  tells_.Spawn([](RoundLead* lead, NodeId to, wire::Abort abort) -> Task<void> {
    (co_await lead->Ask(to, std::move(abort), lead->env_.timings.call)).IgnoreError();
  }(this, node, std::move(abort)));
}

Task<RoundLead::Replies> RoundLead::AskAll(std::vector<NodeId> nodes, const RequestFor& request,
                                           absl::Duration timeout) {
  std::vector<Task<Reply>> asking;
  for (const NodeId& node : nodes) asking.push_back(Ask(node, request(node), timeout));
  std::vector<Reply> answers = co_await WhenAll(env_.executor, std::move(asking));
  Replies replies;
  for (size_t i = 0; i < nodes.size(); ++i) replies.emplace_back(nodes[i], std::move(answers[i]));
  co_return replies;
}

}  // namespace gdf::rounds
