// How an epoch begins: the lead asks what everybody holds, brings all to the newest committed state, and finishes the
// round that was prepared when the last lead or member was lost.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/rounds/receipts.h"
#include "core/rounds/round_lead.h"
#include "core/rounds/round_name.h"

namespace gdf::rounds {

Task<absl::Status> RoundLead::EnterEpoch() {
  absl::StatusOr<Answers> answers = co_await AskMembers();
  GDF_CO_RETURN_IF_ERROR(answers.status());
  alive_.clear();
  lost_.clear();
  for (const auto& [node, reply] : answers->by_node) {
    alive_.insert(node);
    attempt_heard_ = std::max(attempt_heard_, reply.last_attempt);
  }
  for (const auto& [node, why] : answers->silent) lost_[node] = {why, Now()};
  GDF_CO_RETURN_IF_ERROR(ChooseState(*answers));
  const absl::Status together = co_await BringTogether(*answers);
  GDF_CO_RETURN_IF_ERROR(together);
  ReportUnrecorded();
  const absl::Status finished = co_await FinishPrepared(*answers);
  if (finished.ok()) ReportUnrecorded();
  co_return finished;
}

// Waits for everybody for a while, longer for nodes that are there but still load the job, then for a majority: visibly,
// and for as long as it takes, since only people know whether the others come back (limits.max_wall_time, job cancel).
Task<absl::StatusOr<RoundLead::Answers>> RoundLead::AskMembers() {
  const absl::Duration begin = Now();
  bool said = false;
  Answers answers;
  while (true) {
    std::vector<NodeId> nodes;
    for (const NodeId& node : epoch_.members) {
      if (answers.by_node.count(node) == 0) nodes.push_back(node);
    }
    member_.set_activity("gathering the members");
    const wire::Enter enter{env_.job, epoch_};
    const auto same = [enter](const NodeId&) { return enter; };
    Replies replies = co_await AskAll(nodes, same, env_.timings.call);
    answers.silent.clear();
    for (auto& [node, reply] : replies) {
      const auto* entered = reply.ok() ? std::get_if<wire::EnterReply>(&*reply) : nullptr;
      absl::Status valid = reply.ok() ? absl::InvalidArgumentError("answered with something else") : reply.status();
      if (entered != nullptr) {
        valid = entered->commit ? member_.CheckCommit(*entered->commit) : absl::OkStatus();
        if (valid.ok() && entered->num_params != env_.loaded.layout.num_params()) {
          valid = absl::InvalidArgumentError(absl::StrCat("has a model of ", entered->num_params, " parameters, expected ",
                                                          env_.loaded.layout.num_params()));
        }
        const bool proven = entered->commit ? entered->commit->receipt.result == entered->committed
                                            : entered->committed.round.value == 0;
        if (valid.ok() && !proven) valid = absl::InvalidArgumentError("claims a state without its commit");
      }
      if (valid.ok()) {
        answers.by_node.emplace(node, *entered);
      } else {
        answers.silent.emplace(node, valid);
      }
    }
    const std::string missing = MissingQuorum(answers);
    const absl::Duration waited = Now() - begin;
    const bool majority = answers.by_node.size() >= epoch_.majority();
    if (!missing.empty() && (answers.silent.empty() || (majority && waited >= env_.timings.majority))) {
      // The coordinators opened this epoch knowing that the others are gone.
      member_.Event(wire::Severity::kWarning,
                    absl::StrCat("no longer waits for ", missing, ": rounds that only the others hold are rolled back"));
      co_return answers;
    }
    if (answers.silent.empty()) co_return answers;
    const bool loading = std::any_of(answers.silent.begin(), answers.silent.end(), [&](const auto& item) {
      return env_.transport.Connected(item.first) && (absl::IsUnimplemented(item.second) || absl::IsUnavailable(item.second));
    });
    if (missing.empty() && waited >= env_.timings.enter && !loading) co_return answers;
    if (missing.empty() && waited >= env_.timings.majority) co_return answers;
    if (!missing.empty()) progress_at_ = Now();
    if (waited >= env_.timings.enter && !said) {
      said = true;
      member_.Event(wire::Severity::kWarning,
                    absl::StrCat("waiting for ", missing.empty() ? std::string("members that still load the job") : missing));
    }
    co_await Sleep(env_.executor, env_.timings.retry);
  }
}

// A majority of this epoch must be there to commit. Of each epoch that a member left, one of every majority must be, as
// it may have committed a round: half of the members, or one more than half of an odd number. Of epochs since, which none of
// those who answer entered, too. Where a node that has just joined was before does not count beside what those say who
// stayed.
std::string RoundLead::MissingQuorum(const Answers& answers) const {
  const absl::StatusOr<std::vector<NodeId>> before =
      env_.coordinator.MembersOf(env_.job, Epoch{epoch_.epoch.value - 1});
  const auto stayed = [&](const NodeId& node) { return before.ok() && absl::c_linear_search(*before, node); };
  const bool any_stayed =
      absl::c_any_of(answers.by_node, [&](const auto& answer) { return stayed(answer.first); });
  std::vector<std::pair<wire::EpochRecord, size_t>> epochs = {{epoch_, epoch_.majority()}};
  const auto leave = [&epochs](const wire::EpochRecord& left) {
    epochs.emplace_back(left, left.members.size() - left.majority() + 1);
  };
  Epoch newest = epoch_.epoch;  // that any of them left
  bool begun = false;           // this one: it trains already
  for (const auto& [node, reply] : answers.by_node) {
    begun |= !reply.previous && stayed(node);
    if (!reply.previous || (any_stayed && !stayed(node))) continue;
    leave(*reply.previous);
    newest = newest == epoch_.epoch ? reply.previous->epoch : std::max(newest, reply.previous->epoch);
  }
  for (Epoch since = newest.next(); !begun && since < epoch_.epoch; since = since.next()) {
    absl::StatusOr<std::vector<NodeId>> members = env_.coordinator.MembersOf(env_.job, since);
    if (members.ok()) leave({since, {}, *std::move(members)});
  }
  for (const auto& [epoch, needed] : epochs) {
    const size_t there = std::count_if(epoch.members.begin(), epoch.members.end(), [&](const NodeId& node) {
      return answers.by_node.count(node) > 0;
    });
    if (there >= needed) continue;
    std::string text = absl::StrCat(needed, " of the ", epoch.members.size(), " members of epoch ", epoch.epoch.value,
                                    " (", there, there == 1 ? " answers" : " answer");
    for (const auto& [node, why] : answers.silent) {
      absl::StrAppend(&text, "; ", net::NamingPeer(why, node).message());
    }
    return text + ")";
  }
  return "";
}

absl::Status RoundLead::ChooseState(const Answers& answers) {
  const auto self = answers.by_node.find(env_.transport.self());
  if (self == answers.by_node.end()) {
    return absl::InternalError(absl::StrCat("the lead's own node cannot enter the epoch: ",
                                            answers.silent.at(env_.transport.self()).message()));
  }
  const wire::EnterReply* best = &self->second;  // θ_0 is the lead's
  for (const auto& [node, reply] : answers.by_node) {
    if (Rank(best->commit) < Rank(reply.commit)) best = &reply;
  }
  position_ = best->committed;
  commit_ = best->commit;
  return absl::OkStatus();
}

// The lead fetches the state that all are to start from. Who claims it and does not give it is lost.
Task<absl::Status> RoundLead::FetchPosition(const std::vector<NodeId>& holders) {
  wire::SyncState sync{Tag(), position_, holders, true, commit_};
  const Reply synced = co_await Ask(env_.transport.self(), std::move(sync), env_.timings.persist);
  if (synced.ok()) co_return absl::OkStatus();
  const absl::Status why = synced.status();
  if (!absl::IsResourceExhausted(why)) {  // that is this node's own disk or memory
    for (const NodeId& node : holders) Lose(node, why);
  }
  co_return absl::UnavailableError(absl::StrCat("the lead cannot have the state after ", Counted(position_.round.value, "round"), ": ", why.message()));
}

// The lead has this state first; then who holds another one fetches it from those that have it, unless enough do already:
// then nobody waits for that, and a node that has just joined fetches while the others train (TrainOn). Where what follows from
// it differs, those that have it check that they do.
Task<absl::Status> RoundLead::BringTogether(const Answers& answers) {
  const NodeId self = env_.transport.self();
  std::vector<NodeId> behind, holders;
  for (const auto& [node, reply] : answers.by_node) {
    if (reply.committed == position_) {
      holders.push_back(node);
    } else if (node != self) {
      behind.push_back(node);
    }
  }
  if (!(answers.by_node.at(self).committed == position_)) {
    const absl::Status fetched = co_await FetchPosition(holders);
    GDF_CO_RETURN_IF_ERROR(fetched);
    holders.push_back(self);
  }
  if (disagree_) {
    behind = Alive();
  } else if (holders.size() >= Quorum()) {
    co_return CheckMajority();
  }
  const wire::SyncState sync{Tag(), position_, std::move(holders), true, commit_, disagree_};
  const auto same = [sync](const NodeId&) { return sync; };
  Replies replies = co_await AskAll(behind, same, env_.timings.persist);
  for (const auto& [node, reply] : replies) {
    if (!reply.ok()) Lose(node, reply.status());
  }
  co_return CheckMajority();
}

Task<absl::Status> RoundLead::FinishPrepared(const Answers& answers) {
  const wire::Receipt* best = nullptr;
  for (const auto& [node, reply] : answers.by_node) {
    if (!reply.prepared || alive_.count(node) == 0) continue;
    const wire::Receipt& receipt = *reply.prepared;
    if (receipt.tag.round != position_.round || receipt.start_theta != position_.theta) continue;
    const bool newer = best == nullptr || std::make_pair(best->tag.epoch, best->tag.attempt) <
                                              std::make_pair(receipt.tag.epoch, receipt.tag.attempt);
    if (newer) best = &receipt;
  }
  if (best == nullptr) co_return absl::OkStatus();
  std::vector<NodeId> without, holders;
  for (const NodeId& node : Alive()) {
    const std::optional<wire::Receipt>& held = answers.by_node.at(node).prepared;
    (held && held->result == best->result ? holders : without).push_back(node);
  }
  member_.Event(wire::Severity::kInfo, absl::StrCat("finishing ", RoundName(position_.round), ", which node ",
                                                    holders.front().Short(), " had prepared"));
  const wire::SyncState sync{Tag(), best->result, std::move(holders), false, std::nullopt};
  const auto same = [sync](const NodeId&) { return sync; };
  Replies replies = co_await AskAll(without, same, env_.timings.persist);
  for (const auto& [node, reply] : replies) {
    if (!reply.ok() && !absl::IsFailedPrecondition(reply.status())) Lose(node, reply.status());
  }
  GDF_CO_RETURN_IF_ERROR(CheckMajority());
  GDF_CO_RETURN_IF_ERROR(co_await NextAttempt());
  wire::Receipt receipt = *best;
  receipt.tag = Tag();
  receipt.voters = epoch_.members;
  absl::StatusOr<wire::Commit> commit = co_await Sign(std::move(receipt));
  GDF_CO_RETURN_IF_ERROR(commit.status());
  const absl::Status committed = co_await Commit(*std::move(commit));
  co_return committed;
}

}  // namespace gdf::rounds
