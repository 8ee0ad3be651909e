#include "gdfd/services/to_proto.h"

#include "core/config/job_spec.h"

namespace gdf::services {

namespace v1 = control::v1;

grpc::Status ToGrpc(const absl::Status& status) {
  // What a stop of gdfd cuts off. The caller has cancelled nothing.
  if (absl::IsCancelled(status)) {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, std::string(status.message()));
  }
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

v1::Gpu ToProto(const wire::GpuResource& gpu) {
  v1::Gpu out;
  out.set_name(gpu.name);
  out.set_memory_bytes(gpu.memory_bytes);
  return out;
}

v1::Node ToProto(const state::Member& member) {
  v1::Node out;
  out.set_id(member.id.ToString());
  out.set_name(member.profile.name);
  out.set_roles(member.roles.ToString());
  out.set_state(std::string(state::ToString(member.status)));
  out.set_coordinator(member.coordinator);
  for (const std::string& address : member.profile.addresses) out.add_addresses(address);
  out.set_cpu_threads(member.profile.resources.cpu_threads);
  out.set_memory_bytes(member.profile.resources.memory_bytes);
  for (const wire::GpuResource& gpu : member.profile.resources.gpus) {
    *out.add_gpus() = ToProto(gpu);
  }
  out.set_version(member.profile.version);
  out.set_joined_unix_ms(member.joined_unix_ms);
  return out;
}

v1::Round ToProto(const state::RoundRecord& round) {
  const wire::RoundMetrics& m = round.metrics;
  v1::Round out;
  out.set_round(round.round.value);
  if (m.train_loss) out.set_loss(*m.train_loss);
  if (m.valid_loss) out.set_validation_loss(*m.valid_loss);
  out.set_tokens(m.tokens);
  out.set_tokens_per_sec(m.tokens_per_sec);
  out.set_bytes_sent(m.bytes_sent);
  out.set_bytes_received(m.bytes_received);
  out.set_compute_seconds(m.compute_sec);
  out.set_compress_seconds(m.compress_sec);
  out.set_exchange_seconds(m.exchange_sec);
  out.set_aggregate_seconds(m.aggregate_sec);
  out.set_members(m.contributors);
  out.set_digest(round.theta.ToHex());
  if (!m.fragment.zero()) out.set_fragment_digest(m.fragment.ToHex());
  out.set_at_unix_ms(round.at_unix_ms);
  out.set_utilisation(m.utilisation);
  out.set_epoch(round.epoch.value);
  return out;
}

v1::Event ToProto(const state::Event& event, const NodeNames& names) {
  v1::Event out;
  out.set_id(event.id);
  out.set_at_unix_ms(event.at_unix_ms);
  if (event.job.value != 0) out.set_job(ToString(event.job));
  if (!event.node.zero()) {
    out.set_node(event.node.ToString());
    out.set_node_name(names.Of(event.node));
  }
  out.set_severity(std::string(wire::ToString(event.severity)));
  out.set_text(names.In(event.text));
  return out;
}

v1::Job ToProto(const state::Job& job, const NodeNames& names) {
  v1::Job out;
  out.set_id(ToString(job.id));
  out.set_name(job.name);
  switch (job.phase) {
    case state::JobPhase::kPending:
      out.set_phase(v1::JOB_PHASE_PENDING);
      break;
    case state::JobPhase::kRunning:
      out.set_phase(v1::JOB_PHASE_RUNNING);
      break;
    case state::JobPhase::kFinished:
      out.set_phase(job.verdict == wire::Verdict::kSucceeded   ? v1::JOB_PHASE_SUCCEEDED
                    : job.verdict == wire::Verdict::kCancelled ? v1::JOB_PHASE_CANCELLED
                                                               : v1::JOB_PHASE_FAILED);
      break;
  }
  out.set_reason(names.In(job.reason));
  out.set_submitter(job.owner.ToString());
  out.set_submitter_name(names.Of(job.owner));
  out.set_submitted_unix_ms(job.submitted_unix_ms);
  out.set_started_unix_ms(job.started_unix_ms);
  out.set_ended_unix_ms(job.finished_unix_ms);
  out.set_epoch(job.epoch.value);
  if (!job.lead.zero()) {
    out.set_lead(job.lead.ToString());
    out.set_lead_name(names.Of(job.lead));
  }
  for (const NodeId& member : job.members) {
    out.add_members(member.ToString());
    out.add_member_names(names.Of(member));
  }
  out.set_rounds_done(job.rounds_done);
  out.set_rounds_total(job.planned_rounds);
  if (job.rounds_done > 0) {
    *out.mutable_last_round() = ToProto(
        state::RoundRecord{RoundId{job.rounds_done - 1}, job.epoch, 0, job.theta, job.metrics});
  }
  out.set_spec_yaml(job.spec_yaml);
  absl::StatusOr<config::JobSpec> spec =
      config::ParseJobSpec(job.spec_yaml, out.id());  // a summary has none
  if (spec.ok()) out.set_steps_total(static_cast<uint64_t>(spec->train.steps));
  return out;
}

v1::Invite ToProto(const state::InviteRecord& invite) {
  v1::Invite out;
  out.set_id(trust::ToString(invite.id));
  out.set_roles(invite.roles.ToString());
  out.set_expires_unix_ms(invite.expires_unix_ms);
  out.set_uses_left(invite.uses_allowed - std::min(invite.uses, invite.uses_allowed));
  out.set_revoked(invite.revoked);
  return out;
}

}  // namespace gdf::services
