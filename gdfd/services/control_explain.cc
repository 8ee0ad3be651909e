#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "gdfd/services/control_service.h"
#include "gdfd/services/explain.h"
#include "gdfd/services/to_proto.h"

namespace gdf::services {
namespace {

namespace v1 = control::v1;

constexpr size_t kRounds = 20;
constexpr size_t kEvents = 200;

}  // namespace

absl::StatusOr<JobView> ControlService::ViewOf(JobId id) const {
  JobView view;
  GDF_ASSIGN_OR_RETURN(view.job, node_.state.job(id));
  absl::StatusOr<config::JobSpec> spec = config::ParseJobSpec(view.job.spec_yaml, ToString(id));
  if (spec.ok()) view.spec = *std::move(spec);
  const uint64_t done = view.job.rounds_done;
  GDF_ASSIGN_OR_RETURN(view.rounds, node_.state.rounds(id, RoundId{done > kRounds ? done - kRounds : 0}, kRounds));
  state::EventFilter of_job;
  of_job.job = id;
  GDF_ASSIGN_OR_RETURN(view.events, node_.state.newest_events(of_job, kEvents));
  if (const jobs::Scheduler* scheduler = node_.scheduler(); scheduler != nullptr) view.waiting_for = scheduler->WaitingFor(id);
  return view;
}

grpc::Status ControlService::Explain(grpc::ServerContext*, const v1::ExplainRequest* request, v1::ExplainReply* reply) {
  return ToGrpc(bridge_.OnExecutor([&]() -> absl::Status {
    NetworkView network;
    GDF_ASSIGN_OR_RETURN(network.members, node_.state.members());
    network.now = std::max(node_.executor.clock().Now(), absl::FromUnixMillis(node_.state.last_time_unix_ms()));
    if (node_.membership.connected()) {
      const std::vector<NodeId> online = node_.membership.Online();
      network.online.emplace(online.begin(), online.end());
    }
    Explanation explained;
    if (const absl::StatusOr<JobId> id = ParseJobId(request->what()); id.ok()) {
      GDF_ASSIGN_OR_RETURN(const JobView job, ViewOf(*id));
      reply->set_name(job.job.name);
      explained = ExplainJob(job, network);
    } else {
      const absl::StatusOr<state::Member> member = node_.state.FindMember(request->what());
      if (absl::IsNotFound(member.status())) {
        return absl::NotFoundError(absl::StrCat("'", request->what(), "' is neither a job (such as j17) nor a node of this network"));
      }
      GDF_RETURN_IF_ERROR(member.status());
      GDF_ASSIGN_OR_RETURN(const std::vector<state::Job> listed, node_.state.jobs());
      std::vector<JobView> open;
      for (const state::Job& job : listed) {
        if (job.phase == state::JobPhase::kFinished) continue;
        GDF_ASSIGN_OR_RETURN(open.emplace_back(), ViewOf(job.id));
      }
      reply->set_name(member->profile.name);
      explained = ExplainNode(*member, open, network);
    }
    reply->set_answer(explained.answer);
    for (const std::string& because : explained.because) reply->add_because(because);
    for (const std::string& advice : explained.advice) reply->add_advice(advice);
    return absl::OkStatus();
  }));
}

}  // namespace gdf::services
