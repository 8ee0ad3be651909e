// The first stage of a round as its lead has the members do it: training, and how long it waits for whom.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/rounds/round_lead.h"
#include "core/rounds/round_name.h"

namespace gdf::rounds {
namespace {

constexpr double kMaxLateness = 0.05;  // of a training: who begins later leaves this round to the others

}  // namespace

Task<absl::StatusOr<RoundLead::Trained>> RoundLead::Train() {
  GDF_CO_RETURN_IF_ERROR(CheckMajority());
  SettlePlans();
  const std::vector<NodeId> nodes = Alive();
  const std::vector<int64_t> steps = DealSteps(nodes);
  const absl::Duration begun = Now();
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (plans_.count(nodes[i]) > 0) continue;  // it still trains for a round before, or for this one already
    plans_[nodes[i]] = Plan{position_.round};
    planned_.Spawn(Follow(nodes[i], steps[i]));
  }
  co_await AwaitTraining(nodes, begun);
  Trained trained;
  for (const NodeId& node : nodes) {
    const Plan& plan = plans_.at(node);
    if (plan.round == position_.round && plan.reply) {
      Take(node, *plan.reply, &trained);
      plans_.erase(node);
    } else if (!plan.reply && !plan.fetches) {
      TellLate(node);
    }
  }
  LeaveOut(trained);
  GDF_CO_RETURN_IF_ERROR(CheckMajority());
  co_return trained;
}

void RoundLead::Take(const NodeId& node, const Reply& reply, Trained* trained) {
  const auto* report = reply.ok() ? std::get_if<wire::RoundReport>(&*reply) : nullptr;
  if (report == nullptr) {
    return Lose(node, reply.ok() ? absl::InvalidArgumentError("answered a plan with something else") : reply.status());
  }
  wire::RoundReport kept = *report;
  if (kept.refused.empty() && (kept.tokens == 0 || kept.tokens > MaxTokens())) {
    kept.refused = absl::StrCat("claims ", kept.tokens, " tokens, expected 1 to ", MaxTokens());
    kept.at_fault = true;
  }
  if (!kept.refused.empty()) {
    TellWithout(node, kept.refused);
    if (kept.at_fault) Strike(node, kept.refused);
  }
  trained->reports.emplace(node, std::move(kept));
}

// What has come since of rounds that did not wait for it: the delta stays with its node.
void RoundLead::SettlePlans() {
  for (auto it = plans_.begin(); it != plans_.end();) {
    const auto& [node, plan] = *it;
    if (!plan.reply) {
      ++it;
      continue;
    }
    if (plan.round < position_.round) {
      const auto* report = plan.reply->ok() ? std::get_if<wire::RoundReport>(&**plan.reply) : nullptr;
      if (!plan.reply->ok()) Lose(node, plan.reply->status());
      if (report != nullptr) member_.step_shares().Learn(node, report->steps, report->train_seconds);
    }
    it = plans_.erase(it);
  }
}

Task<void> RoundLead::Follow(NodeId node, int64_t num_steps) {
  Reply reply = co_await TrainOn(node, num_steps);
  plans_.at(node).reply = std::move(reply);
  if (reported_) reported_->Set(true);
}

// Until all of `nodes` have answered for this round, or as many as it needs have a delta and the others are late.
Task<void> RoundLead::AwaitTraining(absl::Span<const NodeId> nodes, absl::Duration begun) {
  const double after = env_.spec.rounds.late.after;
  std::optional<absl::Duration> cutoff;
  while (true) {
    size_t waiting = 0, usable = 0;
    for (const NodeId& node : nodes) {
      const Plan& plan = plans_.at(node);
      const auto* report = plan.reply && plan.reply->ok() ? std::get_if<wire::RoundReport>(&**plan.reply) : nullptr;
      waiting += !plan.reply;
      usable += plan.round == position_.round && report != nullptr && report->refused.empty();
    }
    if (!cutoff && after > 0 && usable >= Quorum()) cutoff = begun + after * (Now() - begun);
    if (waiting == 0 || (cutoff && *cutoff <= Now())) co_return;
    reported_.emplace(env_.executor);
    const OneShot<bool> reported = *reported_;
    if (cutoff) reported.SetAfter(*cutoff - Now(), true);
    co_await reported.Wait();
  }
}

// Once, however many rounds it misses in a row.
void RoundLead::TellLate(const NodeId& node) {
  if (!late_.insert(node).second) return;
  const double weight = env_.spec.rounds.late.weight;
  TellWithout(node, absl::StrCat("it trains for longer than rounds.late allows; ",
                                 weight > 0 ? "its delta counts in a later round" : "its delta is dropped"));
}

void RoundLead::TellWithout(const NodeId& node, const std::string& why) {
  member_.Event(wire::Severity::kWarning,
                absl::StrCat(RoundName(position_.round), " is without the delta of node ", node.Short(), ": ", why));
}

void RoundLead::LeaveOut(Trained& trained) {
  for (const auto& [node, report] : trained.reports) {
    if (report.refused.empty()) trained.deltas.push_back({node, report.steps, report.delta_norm, report.mean_loss});
  }
  trained.left_out = member_.anomalies().Judge(Fragment(), trained.deltas);
  for (const auto& [node, why] : trained.left_out) {
    TellWithout(node, why);
    Strike(node, why);
  }
}

void RoundLead::Strike(const NodeId& node, const std::string& why) {
  std::optional<std::string> often = member_.anomalies().Strike(node, position_.round, why);
  if (often) at_fault_[node] = *std::move(often);
}

// By their speeds: for all where the job says so, and where a round does not wait for late members for those that were late,
// so that their deltas come with what they carry of those before.
std::vector<int64_t> RoundLead::DealSteps(absl::Span<const NodeId> nodes) {
  const config::RoundSteps steps = config::StepsOfRound(env_.spec, static_cast<int64_t>(position_.round.value));
  const int64_t whole = steps.until - steps.from;
  std::vector<int64_t> shares = member_.step_shares().Deal(nodes, whole);
  if (env_.spec.rounds.steps_by_speed) return shares;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (shares[i] == whole) late_.erase(nodes[i]);
    if (late_.count(nodes[i]) == 0) shares[i] = whole;
  }
  return shares;
}

Task<RoundLead::Reply> RoundLead::TrainOn(NodeId node, int64_t num_steps) {
  wire::RoundPlan plan;
  plan.tag = Tag();
  plan.start_theta = position_.theta;
  plan.seed = env_.spec.train.seed;
  const config::RoundSteps steps = config::StepsOfRound(env_.spec, static_cast<int64_t>(position_.round.value));
  plan.from_step = static_cast<uint64_t>(steps.from);
  plan.until_step = static_cast<uint64_t>(steps.from + num_steps);
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
    plans_.at(node).fetches = true;
    Reply synced = co_await Ask(node, std::move(sync), env_.timings.persist);
    plans_.at(node).fetches = false;
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

}  // namespace gdf::rounds
