// The stages of a round as its lead has the members do them, after training: the exchanges, signing, the commit.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/log.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/rounds/receipts.h"
#include "core/rounds/result.h"
#include "core/rounds/round_lead.h"
#include "core/rounds/round_name.h"

namespace gdf::rounds {
namespace {

constexpr int kMaxAttempts = 8;      // exchanges of one round
constexpr int kMaxSuspicion = 3;     // a member that others miss this often is left out
constexpr uint32_t kAttemptBlock = 1024;  // attempts reserved by one write

}  // namespace

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
  for (const auto& [node, report] : trained.reports) {
    if (report.at_fault || trained.left_out.count(node) > 0) start.left_out.push_back(node);
  }
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
                          report->second.refused.empty() && trained.left_out.count(member.node) == 0 &&
                          without_delta.count(member.node) == 0;
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
      const absl::Status none = absl::InvalidArgumentError(
          absl::StrCat("no member has a delta that can be used in ", RoundName(position_.round), "; node ",
                       first->first.Short(), ": ", first->second.refused));
      if (first->second.at_fault) gone_wrong_ = none;
      co_return none;
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
      combined.receipt.result.cursor = std::max(CursorOf(trained), position_.cursor);
      co_return combined;
    }
  }
  co_return absl::UnavailableError(absl::StrCat("the exchange of ", RoundName(position_.round), " did not succeed in ",
                                                kMaxAttempts, " attempts or ", HumanDuration(env_.spec.rounds.round_deadline),
                                                exchange_failure_.empty() ? "" : "; last: ", exchange_failure_));
}

// The lead's own word, or of those that it does not wait for the first's.
wire::DataCursor RoundLead::CursorOf(const Trained& trained) const {
  const auto own = trained.reports.find(env_.transport.self());
  return own != trained.reports.end() ? own->second.cursor : trained.reports.begin()->second.cursor;
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
      const std::string why = absl::StrCat("its result differs in ", Difference(other, result, fragments));
      Strike(node, why);
      Lose(node, absl::DataLossError(why));
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
    const std::string why = absl::StrCat("the members do not agree on the result of ", RoundName(position_.round),
                                         ": those of node ", one.second.begin()->first.Short(), " and node ",
                                         other.second.begin()->first.Short(), " differ in ",
                                         Difference(one.first, other.first, fragments));
    if (!std::exchange(disagree_, true)) {
      member_.Event(wire::Severity::kError, absl::StrCat("waiting: ", why, "; all check their parameters and try again"));
    }
    return absl::UnavailableError(why);
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
  if (std::exchange(disagree_, false)) {
    member_.Event(wire::Severity::kInfo, absl::StrCat("the members agree on the result of ", RoundName(position_.round), " now"));
  }
  position_ = commit.receipt.result;
  commit_ = std::move(commit);
  co_return absl::OkStatus();
}

}  // namespace gdf::rounds
