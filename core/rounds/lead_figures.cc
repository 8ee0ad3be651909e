// What a lead tells of its rounds: their figures, and the loss that the last one came to.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/rounds/round_lead.h"
#include "core/rounds/round_name.h"

namespace gdf::rounds {
namespace {

constexpr int kReportTries = 5;

}  // namespace

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
  if (metrics.tokens > 0) {
    metrics.train_loss = loss / static_cast<double>(metrics.tokens);
    const std::optional<std::string> wrong = member_.anomalies().JudgeModel(summary.report.round, *metrics.train_loss);
    if (wrong) LossJumped(absl::StrCat("after ", RoundName(summary.report.round), ": ", *wrong));
  }
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

// It may come down again: without a checkpoint to go back to there is nothing better to do than to go on.
void RoundLead::LossJumped(const std::string& why) {
  if (env_.roll_back && env_.spec.checkpoints.every > 0) {
    GoneWrong(why);
  } else if (!std::exchange(told_jump_, true)) {
    member_.Event(wire::Severity::kError, absl::StrCat(why, "; it goes on, as there is no checkpoint to go back to (checkpoints.every)"));
  }
}

void RoundLead::GoneWrong(const std::string& why) {
  if (!gone_wrong_.ok()) return;
  gone_wrong_ = absl::DataLossError(why);
  member_.Event(wire::Severity::kError, why);
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
      if (absl::IsDataLoss(result.status())) {
        GoneWrong(absl::StrCat("after ", RoundName(summary->report.round), ", on node ", env_.transport.self().Short(), ": ",
                               result.status().message()));
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

}  // namespace gdf::rounds
