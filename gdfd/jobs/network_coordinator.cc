#include "gdfd/jobs/network_coordinator.h"

#include <algorithm>

#include "core/base/status_macros.h"
#include "core/wire/membership_messages.h"

namespace gdf::jobs {
namespace {

constexpr absl::Duration kEpochTimeout = absl::Seconds(20);

// `later` follows `earlier`: what they did together, with the state after both.
wire::ReportJob Sum(const wire::ReportJob& earlier, wire::ReportJob later) {
  const wire::RoundMetrics& a = earlier.metrics;
  wire::RoundMetrics& b = later.metrics;
  const double tokens = static_cast<double>(a.tokens + b.tokens);
  const double share = tokens > 0 ? static_cast<double>(b.tokens) / tokens : 1;
  if (a.train_loss && b.train_loss)
    b.train_loss = *a.train_loss * (1 - share) + *b.train_loss * share;
  b.utilisation = a.utilisation * (1 - share) + b.utilisation * share;
  const double seconds =
      (a.tokens_per_sec > 0 ? static_cast<double>(a.tokens) / a.tokens_per_sec : 0) +
      (b.tokens_per_sec > 0 ? static_cast<double>(b.tokens) / b.tokens_per_sec : 0);
  if (seconds > 0) b.tokens_per_sec = tokens / seconds;
  b.tokens += a.tokens;
  b.bytes_sent += a.bytes_sent;
  b.bytes_received += a.bytes_received;
  b.compute_sec += a.compute_sec;
  b.compress_sec += a.compress_sec;
  b.exchange_sec += a.exchange_sec;
  b.aggregate_sec += a.aggregate_sec;
  return later;
}

}  // namespace

Task<absl::Status> NetworkCoordinator::Record(wire::CommandBody body) {
  absl::StatusOr<wire::CommandResult> result = co_await membership_.ProposeChecked(std::move(body));
  co_return result.status();
}

Task<absl::Status> NetworkCoordinator::RequestEpoch(rounds::EpochRequest request) {
  wire::EpochCall call{request.job, request.current, std::move(request.lost),
                       std::move(request.reason), request.leaving};
  absl::Status last = absl::UnavailableError("no coordinator leads, as far as is known here");
  for (const NodeId& coordinator : membership_.Coordinators()) {
    absl::Status asked = absl::UnimplementedError("nothing is scheduled here");
    if (coordinator != transport_.self()) {
      absl::StatusOr<Buffer> reply = co_await transport_.Call(
          coordinator, "jobs.request_epoch", Buffer(wire::Encode(call)), kEpochTimeout);
      asked = reply.status();
    } else if (Scheduler* scheduler = scheduler_()) {
      asked = co_await scheduler->RequestEpoch(transport_.self(), call);
    }
    if (absl::IsUnimplemented(asked)) continue;  // another one leads
    last = asked;
    if (!absl::IsUnavailable(last)) break;
  }
  co_return last;
}

Task<absl::Status> NetworkCoordinator::ReportJob(wire::ReportJob report) {
  if (held_) report = Sum(*held_, std::move(report));
  held_.reset();
  const absl::Duration now = transport_.executor().clock().Monotonic();
  absl::StatusOr<state::Job> job = state_.job(report.job);
  const bool last = job.ok() && report.round.value + 1 >= job->planned_rounds;
  if (now - last_sent_ < kReportInterval && !report.metrics.valid_loss && !last) {
    held_ = std::move(report);
    co_return absl::OkStatus();
  }
  last_sent_ = now;
  co_return co_await Record(std::move(report));
}

Task<absl::Status> NetworkCoordinator::FinishJob(wire::FinishJob finish) {
  co_return co_await Record(std::move(finish));
}

Task<absl::Status> NetworkCoordinator::RollBackJob(wire::RollBackJob back) {
  co_return co_await Record(std::move(back));
}

absl::StatusOr<std::vector<NodeId>> NetworkCoordinator::MembersOf(JobId job, Epoch epoch) {
  return state_.epoch_members(job, epoch);
}

bool NetworkCoordinator::IsMember(NodeId node) { return state_.IsActive(node); }

std::string NetworkCoordinator::NameOf(NodeId node) {
  const absl::StatusOr<state::Member> member = state_.member(node);
  return member.ok() ? member->profile.name : "";
}

uint64_t NetworkCoordinator::RecordedRounds(JobId job) {
  const absl::StatusOr<state::Job> known = state_.job(job);
  return known.ok() ? known->rounds_done : 0;
}

std::vector<std::pair<RoundId, double>> NetworkCoordinator::RecordedLosses(JobId job, size_t count) {
  const uint64_t done = RecordedRounds(job);
  const absl::StatusOr<std::vector<state::RoundRecord>> records = state_.rounds(job, RoundId{done - std::min<uint64_t>(done, count)}, count);
  std::vector<std::pair<RoundId, double>> losses;
  if (!records.ok()) return losses;
  for (const state::RoundRecord& record : *records) {
    if (record.metrics.train_loss) losses.emplace_back(record.round, *record.metrics.train_loss);
  }
  return losses;
}

Task<absl::Status> NetworkCoordinator::ReportEvent(wire::JobEvent event) {
  co_return co_await Record(std::move(event));
}

bool NetworkCoordinator::SeesOffline(NodeId node) {
  return membership_.connected() && !membership_.IsOnline(node);
}

}  // namespace gdf::jobs
