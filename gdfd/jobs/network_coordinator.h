// The network's coordinators as a running job sees them: reports become commands, requests for an
// epoch go to the scheduler, which may be on this node.
#ifndef GDF_GDFD_JOBS_NETWORK_COORDINATOR_H_
#define GDF_GDFD_JOBS_NETWORK_COORDINATOR_H_

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "core/membership/membership.h"
#include "core/net/transport.h"
#include "core/rounds/round_env.h"
#include "core/state/state.h"
#include "gdfd/jobs/scheduler.h"

namespace gdf::jobs {

// On the executor.
class NetworkCoordinator final : public rounds::Coordinator {
 public:
  // `scheduler` gives the one of this node, or null; asked at every call.
  NetworkCoordinator(net::Transport& transport, state::State& state,
                     membership::Membership& membership, std::function<Scheduler*()> scheduler)
      : transport_(transport),
        state_(state),
        membership_(membership),
        scheduler_(std::move(scheduler)) {}

  Task<absl::Status> RequestEpoch(rounds::EpochRequest request) override;
  // Rounds that follow each other faster than kReportInterval are summed up in one report; one with
  // a validation loss and the last one are always sent.
  Task<absl::Status> ReportJob(wire::ReportJob report) override;
  Task<absl::Status> FinishJob(wire::FinishJob finish) override;
  Task<absl::Status> RollBackJob(wire::RollBackJob back) override;
  Task<absl::Status> ReportEvent(wire::JobEvent event) override;
  absl::StatusOr<std::vector<NodeId>> MembersOf(JobId job, Epoch epoch) override;
  uint64_t RecordedRounds(JobId job) override;
  std::vector<std::pair<RoundId, double>> RecordedLosses(JobId job, size_t count) override;
  bool IsMember(NodeId node) override;
  std::string NameOf(NodeId node) override;
  bool SeesOffline(NodeId node) override;

  static constexpr absl::Duration kReportInterval = absl::Milliseconds(500);

 private:
  Task<absl::Status> Record(wire::CommandBody body);
  net::Transport& transport_;
  state::State& state_;
  membership::Membership& membership_;
  const std::function<Scheduler*()> scheduler_;
  std::optional<wire::ReportJob> held_;  // not sent yet
  absl::Duration last_sent_ = -absl::InfiniteDuration();
};

}  // namespace gdf::jobs

#endif  // GDF_GDFD_JOBS_NETWORK_COORDINATOR_H_
