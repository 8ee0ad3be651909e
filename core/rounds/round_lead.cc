#include "core/rounds/round_lead.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/rounds/receipts.h"
#include "core/rounds/result.h"
#include "core/rounds/round_name.h"

namespace gdf::rounds {
namespace {

constexpr int kMaxAttempts = 8;      // exchanges of one round
constexpr int kMaxSuspicion = 3;     // a member that others miss this often is left out
constexpr double kMaxLateness = 0.05;  // of a training: who begins later leaves this round to the others
constexpr int kReportTries = 5;
constexpr int kMaxBackoff = 6;       // a failed round is tried again after 1, 2, 4, ... 64 times the retry time
constexpr int kFailuresToTell = 2;   // of rounds, until it is said that the job waits: one may be a node that is back at once
constexpr uint32_t kAttemptBlock = 1024;  // attempts reserved by one write

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
      tells_(env_.executor) {}

absl::Duration RoundLead::Now() const { return env_.executor.clock().Monotonic(); }

uint64_t RoundLead::TotalRounds() const { return static_cast<uint64_t>(config::NumRounds(env_.spec)); }

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
  absl::Status status = co_await EnterEpoch();
  while (!IsFinal(status) && (!status.ok() || position_.round.value < TotalRounds())) {
    if (status.ok()) {
      member_.set_activity("leading");
      TakeBack();
      status = co_await RunRound();
      if (!diverged_.ok()) co_return diverged_;
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
    // It ends this lead, and the coordinators take no report of an epoch that is over.
    const absl::Duration give_up = Now() + env_.timings.call;
    while (unreported_ > 0 && Now() < give_up) co_await Sleep(env_.executor, env_.timings.retry);
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

// Tells the coordinators, then the members.
Task<absl::Status> RoundLead::Finish(absl::Status verdict) {
  summaries_.Close();
  while (scope_.size() > 0) co_await Sleep(env_.executor, env_.timings.retry);
  if (verdict.ok()) verdict = diverged_;  // by the last round
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

// --- Stages ---

Task<absl::StatusOr<RoundLead::Trained>> RoundLead::Train() {
  GDF_CO_RETURN_IF_ERROR(CheckMajority());
  const std::vector<NodeId> nodes = Alive();
  std::vector<Task<Reply>> asking;
  for (const NodeId& node : nodes) asking.push_back(TrainOn(node));
  std::vector<Reply> replies = co_await WhenAll(env_.executor, std::move(asking));
  Trained trained;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto* report = replies[i].ok() ? std::get_if<wire::RoundReport>(&*replies[i]) : nullptr;
    if (report == nullptr) {
      Lose(nodes[i], replies[i].ok() ? absl::InvalidArgumentError("answered a plan with something else")
                                     : replies[i].status());
      continue;
    }
    wire::RoundReport kept = *report;
    if (kept.refused.empty() && (kept.tokens == 0 || kept.tokens > MaxTokens())) {
      kept.refused = absl::StrCat("claims ", kept.tokens, " tokens, expected 1 to ", MaxTokens());
    }
    if (!kept.refused.empty()) {
      member_.Event(wire::Severity::kWarning, absl::StrCat(RoundName(position_.round), " is without the delta of node ",
                                                           nodes[i].Short(), ": ", kept.refused));
    }
    trained.reports.emplace(nodes[i], std::move(kept));
  }
  GDF_CO_RETURN_IF_ERROR(CheckMajority());
  co_return trained;
}

Task<RoundLead::Reply> RoundLead::TrainOn(NodeId node) {
  wire::RoundPlan plan;
  plan.tag = Tag();
  plan.start_theta = position_.theta;
  plan.seed = env_.spec.train.seed;
  const config::RoundSteps steps = config::StepsOfRound(env_.spec, static_cast<int64_t>(position_.round.value));
  plan.from_step = static_cast<uint64_t>(steps.from);
  plan.until_step = static_cast<uint64_t>(steps.until);
  plan.member_index = static_cast<uint32_t>(
      std::find(epoch_.members.begin(), epoch_.members.end(), node) - epoch_.members.begin());
  plan.num_members = static_cast<uint32_t>(epoch_.members.size());
  plan.cursor = position_.cursor;
  plan.codec = Codec();
  plan.deadline = env_.spec.rounds.round_deadline;
  Reply reply = co_await Ask(node, plan, env_.spec.rounds.round_deadline);
  if (absl::IsFailedPrecondition(reply.status()) && node != env_.transport.self()) {
    // It was away, or is new: it enters again, fetches θ_t, and trains if that keeps nobody waiting.
    const wire::Enter enter{env_.job, epoch_};
    (co_await Ask(node, enter, env_.timings.call)).IgnoreError();
    wire::SyncState sync{Tag(), position_, Alive(), true, commit_};
    const absl::Duration begun = Now();
    Reply synced = co_await Ask(node, std::move(sync), env_.timings.persist);
    GDF_CO_RETURN_IF_ERROR(synced.status());
    if (Now() - begun > kMaxLateness * member_.training_time()) {
      wire::RoundReport without;
      without.tag = plan.tag;
      without.refused = "it fetched the parameters while the others trained";
      without.cursor = position_.cursor;
      co_return wire::RoundReply(std::move(without));
    }
    reply = co_await Ask(node, plan, env_.spec.rounds.round_deadline);
  }
  co_return reply;
}

// Who contributes to the second pass counts: a mean of the others' factors is still one of their deltas, as the
// first pass's mean only says in which space (docs/formats/low-rank.md). So a member that is lost between them is no matter.
Task<absl::StatusOr<RoundLead::Combined>> RoundLead::Exchange(const Trained& trained) {
  absl::StatusOr<Combined> combined = co_await Combine(trained, nullptr);
  if (!combined.ok() || env_.spec.rounds.rank == 0) co_return combined;
  const Combined first = *std::move(combined);
  combined = co_await Combine(trained, &first);
  GDF_CO_RETURN_IF_ERROR(combined.status());
  for (auto& [node, prepared] : combined->prepared) {
    const auto before = first.prepared.find(node);
    if (before == first.prepared.end()) continue;
    prepared.exchange_seconds += before->second.exchange_seconds;
    prepared.aggregate_seconds += before->second.aggregate_seconds;
  }
  co_return combined;
}

Task<absl::StatusOr<RoundLead::Combined>> RoundLead::Combine(const Trained& trained, const Combined* first) {
  const absl::Duration give_up = Now() + env_.spec.rounds.round_deadline;
  std::set<NodeId> without_delta;
  wire::ExchangeStart start;  // later attempts go on with what members hold of the first one
  std::vector<NodeId> nodes = Alive();
  if (first != nullptr) {  // who lacks its result has no part in the second
    nodes.erase(std::remove_if(nodes.begin(), nodes.end(),
                               [&](const NodeId& node) { return first->prepared.count(node) == 0; }),
                nodes.end());
    start.first_pass = first->receipt.result.theta;
  }
  for (const NodeId& node : nodes) start.members.push_back({node, 0});
  start.codec = Codec();
  start.sites = SitesOf(nodes);
  TellSites(nodes, start.sites);
  if (start.sites.empty()) start.shares = member_.tuner().DealShares(nodes);
  suspicion_.clear();
  for (int tries = 0; tries < kMaxAttempts && Now() < give_up; ++tries) {
    GDF_CO_RETURN_IF_ERROR(CheckMajority());
    GDF_CO_RETURN_IF_ERROR(co_await NextAttempt());
    std::vector<wire::Contribution> members;
    uint64_t tokens = 0;
    for (wire::Contribution& member : start.members) {
      const bool there = alive_.count(member.node) > 0;
      const auto report = trained.reports.find(member.node);
      const bool usable = there && report != trained.reports.end() &&
                          report->second.refused.empty() && without_delta.count(member.node) == 0;
      member.tokens = usable ? report->second.tokens : 0;
      tokens += member.tokens;
      if (there) {
        members.push_back(member);
      } else if (std::find(start.lost.begin(), start.lost.end(), member.node) == start.lost.end()) {
        start.lost.push_back(member.node);
      }
    }
    if (tokens == 0) {
      const auto first = trained.reports.begin();
      co_return absl::InvalidArgumentError(
          absl::StrCat("no member has a delta that can be used in ", RoundName(position_.round), "; node ",
                       first->first.Short(), ": ", first->second.refused));
    }
    start.tag = Tag();
    start.deadline = std::max(absl::Seconds(1), (give_up - Now()) / 2);
    std::vector<Task<Reply>> asking;
    for (const wire::Contribution& member : members) asking.push_back(AskExchange(member.node, start));
    std::vector<Reply> answers = co_await WhenAll(env_.executor, std::move(asking));
    Replies replies;
    for (size_t i = 0; i < members.size(); ++i) replies.emplace_back(members[i].node, std::move(answers[i]));
    if (start.resumes == 0) start.resumes = attempt_;
    absl::StatusOr<std::optional<Combined>> judged = Judge(members, replies, &without_delta);
    GDF_CO_RETURN_IF_ERROR(judged.status());
    if (judged->has_value()) {
      Combined combined = **std::move(judged);
      for (const auto& [node, report] : trained.reports) {
        if (node == env_.transport.self() || combined.receipt.result.cursor < position_.cursor) {
          combined.receipt.result.cursor = std::max(report.cursor, position_.cursor);
        }
      }
      co_return combined;
    }
  }
  co_return absl::UnavailableError(absl::StrCat("the exchange of ", RoundName(position_.round), " did not succeed in ",
                                                kMaxAttempts, " attempts or ", HumanDuration(env_.spec.rounds.round_deadline),
                                                exchange_failure_.empty() ? "" : "; last: ", exchange_failure_));
}

Task<absl::Status> RoundLead::NextAttempt() {
  ++attempt_;
  if (attempt_ < attempts_end_ && attempt_ > attempt_heard_) co_return absl::OkStatus();
  absl::StatusOr<uint32_t> first = co_await member_.ReserveAttempts(epoch_.epoch, attempt_heard_, kAttemptBlock);
  GDF_CO_RETURN_IF_ERROR(first.status());
  attempt_ = *first;
  attempts_end_ = *first + kAttemptBlock;
  co_return absl::OkStatus();
}

Task<RoundLead::Reply> RoundLead::AskExchange(NodeId node, wire::ExchangeStart start) {
  Reply reply = co_await Ask(node, start, start.deadline + env_.timings.call);
  if (absl::IsUnavailable(reply.status()) || absl::IsDeadlineExceeded(reply.status())) {
    TellLost(node, start.tag, reply.status());
  }
  co_return reply;
}

void RoundLead::TellLost(const NodeId& lost, const wire::RoundTag& tag, const absl::Status& why) {
  for (const NodeId& node : Alive()) {
    if (node != lost) Tell(node, wire::Abort{tag, std::string(why.message()), {lost}});
  }
}

// A result that a majority agrees on, or nothing: then who is lost or without a delta has been noted.
absl::StatusOr<std::optional<RoundLead::Combined>> RoundLead::Judge(const std::vector<wire::Contribution>& members,
                                                                    const Replies& replies,
                                                                    std::set<NodeId>* without_delta) {
  std::map<Result, std::map<NodeId, wire::Prepared>> results;
  std::map<NodeId, Result> result_of;
  exchange_failure_.clear();
  for (const auto& [node, reply] : replies) {
    const auto* prepared = reply.ok() ? std::get_if<wire::Prepared>(&*reply) : nullptr;
    if (absl::IsFailedPrecondition(reply.status())) {
      without_delta->insert(node);
    } else if (prepared == nullptr) {
      Lose(node, reply.ok() ? absl::InvalidArgumentError("answered an exchange with something else") : reply.status());
    } else if (!prepared->failure.empty()) {
      exchange_failure_ = absl::StrCat("node ", node.Short(), ": ", prepared->failure);
      for (const NodeId& missed : prepared->lost) ++suspicion_[missed];
    } else {
      const Result& result = result_of.emplace(node, Result(prepared->result, prepared->fragment)).first->second;
      results[result].emplace(node, *prepared);
    }
  }
  const int64_t fragments = env_.spec.rounds.fragments;
  for (const auto& [result, agreeing] : results) {
    if (agreeing.size() < epoch_.majority()) continue;
    for (const auto& [node, other] : result_of) {
      if (other == result) continue;
      Lose(node, absl::DataLossError(absl::StrCat("its result differs in ", Difference(other, result, fragments))));
    }
    Combined combined;
    combined.receipt.tag = Tag();
    combined.receipt.voters = epoch_.members;
    combined.receipt.contributions = wire::Contributing(members);
    combined.receipt.start_theta = position_.theta;
    combined.receipt.result = {position_.round.next(), result.theta, result.momentum, position_.cursor};
    combined.receipt.fragment = result.fragment;
    combined.receipt.codec = Codec();
    combined.prepared = agreeing;
    return std::optional<Combined>(std::move(combined));
  }
  if (results.size() > 1 && result_of.size() == members.size()) {
    const auto& one = *results.begin();
    const auto& other = *results.rbegin();
    return absl::DataLossError(absl::StrCat("the members do not agree on the result of ", RoundName(position_.round),
                                            ": those of node ", one.second.begin()->first.Short(), " and node ",
                                            other.second.begin()->first.Short(), " differ in ",
                                            Difference(one.first, other.first, fragments)));
  }
  for (const auto& [node, times] : suspicion_) {
    if (times >= kMaxSuspicion && node != env_.transport.self()) {
      Lose(node, absl::UnavailableError(absl::StrCat("other members cannot exchange with it; last: ", exchange_failure_)));
    }
  }
  if (!exchange_failure_.empty()) {
    Log(LogLevel::kWarning, "exchange_failed", {{"tag", Tag().ToString()}, {"why", exchange_failure_}});
  }
  return std::optional<Combined>();
}

Task<absl::StatusOr<wire::Commit>> RoundLead::Sign(wire::Receipt receipt) {
  wire::Commit commit;
  commit.receipt = receipt;
  const auto propose = [receipt](const NodeId&) { return wire::Propose{receipt}; };
  Replies replies = co_await AskAll(Alive(), propose, env_.timings.persist);
  std::string refusals;
  for (const auto& [node, reply] : replies) {
    const auto* answer = reply.ok() ? std::get_if<wire::Signed>(&*reply) : nullptr;
    const absl::Status valid = answer != nullptr ? VerifySignature(receipt, env_.submission, answer->signature, node) : reply.status();
    if (answer != nullptr && valid.ok()) {
      commit.signatures.push_back(answer->signature);
    } else {
      absl::StrAppend(&refusals, "; ", net::NamingPeer(valid, node).message());
      if (absl::IsUnavailable(valid) || absl::IsDeadlineExceeded(valid)) Lose(node, valid);
    }
  }
  if (commit.signatures.size() < epoch_.majority()) {
    co_return absl::UnavailableError(absl::StrCat("the receipt of ", receipt.tag.ToString(), " has ",
                                                  commit.signatures.size(), " signatures, needs ", epoch_.majority(),
                                                  refusals));
  }
  co_return commit;
}

Task<absl::Status> RoundLead::Commit(wire::Commit commit) {
  const wire::CommitRound request{commit.receipt.tag, commit};
  const auto same = [request](const NodeId&) { return request; };
  Replies replies = co_await AskAll(Alive(), same, env_.timings.persist);
  bytes_sent_ = bytes_received_ = 0;
  for (const auto& [node, reply] : replies) {
    if (node == env_.transport.self()) GDF_CO_RETURN_IF_ERROR(reply.status());
    if (!reply.ok()) {
      // A node that answers and has another result fetches this one when the next round begins.
      if (!absl::IsFailedPrecondition(reply.status())) Lose(node, reply.status());
      continue;
    }
    if (const auto* done = std::get_if<wire::Done>(&*reply)) {
      bytes_sent_ += done->bytes_sent;
      bytes_received_ += done->bytes_received;
    }
  }
  progress_at_ = Now();
  failures_ = 0;
  position_ = commit.receipt.result;
  commit_ = std::move(commit);
  co_return absl::OkStatus();
}

// --- Figures ---

RoundLead::Summary RoundLead::SummaryOf(const wire::Receipt& receipt) const {
  Summary summary;
  summary.report.job = env_.job;
  summary.report.epoch = epoch_.epoch;
  summary.report.round = receipt.tag.round;
  summary.report.theta = receipt.result.theta;
  summary.report.metrics.contributors = static_cast<uint32_t>(receipt.contributions.size());
  summary.report.metrics.fragment = receipt.fragment;
  return summary;
}

void RoundLead::Summarise(const Trained& trained, const Combined& combined, absl::Duration took) {
  Summary summary = SummaryOf(combined.receipt);
  wire::RoundMetrics& metrics = summary.report.metrics;
  const double seconds = std::max(absl::ToDoubleSeconds(took), 1e-9);
  double loss = 0;
  double compute = 0;
  for (const wire::Contribution& c : combined.receipt.contributions) {
    const auto it = trained.reports.find(c.node);
    if (it == trained.reports.end()) continue;
    const wire::RoundReport& member = it->second;
    loss += member.mean_loss * static_cast<double>(c.tokens);
    metrics.tokens += c.tokens;
    compute += member.train_seconds + member.compress_seconds;
    metrics.compute_sec = std::max(metrics.compute_sec, member.train_seconds);
    metrics.compress_sec = std::max(metrics.compress_sec, member.compress_seconds);
  }
  for (const auto& [node, prepared] : combined.prepared) {
    metrics.exchange_sec = std::max(metrics.exchange_sec, prepared.exchange_seconds);
    metrics.aggregate_sec = std::max(metrics.aggregate_sec, prepared.aggregate_seconds);
  }
  if (metrics.tokens > 0) metrics.train_loss = loss / static_cast<double>(metrics.tokens);
  metrics.tokens_per_sec = static_cast<double>(metrics.tokens) / seconds;
  metrics.bytes_sent = bytes_sent_;
  metrics.bytes_received = bytes_received_;
  metrics.utilisation = std::clamp(compute / seconds / static_cast<double>(metrics.contributors), 0.0, 1.0);
  const uint64_t every = static_cast<uint64_t>(std::max<int64_t>(env_.spec.rounds.validate_every, 1));
  const bool due = position_.round.value % every == 0 || position_.round.value == TotalRounds();
  // Asked for now, so that it runs on θ_t+1 before the next round's steps; awaited in the report.
  if (due && env_.loaded.valid_tokens > 0) summary.validation = member_.Evaluate();
  Push(std::move(summary));
}

void RoundLead::ReportUnrecorded() {
  const uint64_t recorded = std::max(summarised_, env_.coordinator.RecordedRounds(env_.job));
  if (!commit_ || position_.round.value <= recorded) return;
  Summary summary = SummaryOf(commit_->receipt);
  summary.report.message = "its times and loss were lost with the node that had them";
  for (const wire::Contribution& c : commit_->receipt.contributions) summary.report.metrics.tokens += c.tokens;
  Push(std::move(summary));
}

void RoundLead::Push(Summary summary) {
  summarised_ = summary.report.round.value + 1;
  summaries_.Push(std::move(summary));
  ++unreported_;
}

Task<void> RoundLead::ReportLoop() {
  while (true) {
    std::optional<Summary> summary = co_await summaries_.Pop();
    if (!summary) co_return;
    if (summary->validation) {
      absl::StatusOr<train::EvalResult> result = co_await summary->validation->Wait();
      if (result.ok()) {
        summary->report.metrics.valid_loss = result->loss;
      } else {
        summary->report.message = absl::StrCat("not validated: ", result.status().message());
      }
      if (absl::IsDataLoss(result.status()) && diverged_.ok()) {
        diverged_ = absl::DataLossError(absl::StrCat("after ", RoundName(summary->report.round), ", on node ",
                                                     env_.transport.self().Short(), ": ", result.status().message()));
        member_.Event(wire::Severity::kError, std::string(diverged_.message()));
      }
    }
    for (int tries = 0; tries < kReportTries; ++tries) {
      const absl::Status sent = co_await env_.coordinator.ReportJob(summary->report);
      if (sent.ok() || !absl::IsUnavailable(sent)) break;
      co_await Sleep(env_.executor, env_.timings.retry);
    }
    --unreported_;
  }
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
