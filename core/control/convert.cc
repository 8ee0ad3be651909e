#include "core/control/convert.h"

#include "core/base/name.h"
#include "core/base/status_macros.h"

namespace gdf::control {
namespace {

// 0 on the wire: not yet.
absl::Time TimeFrom(int64_t unix_ms) {
  return unix_ms == 0 ? absl::InfinitePast() : absl::FromUnixMillis(unix_ms);
}

JobPhase PhaseFrom(v1::JobPhase phase) {
  switch (phase) {
    case v1::JOB_PHASE_PENDING: return JobPhase::kPending;
    case v1::JOB_PHASE_RUNNING: return JobPhase::kRunning;
    case v1::JOB_PHASE_SUCCEEDED: return JobPhase::kSucceeded;
    case v1::JOB_PHASE_FAILED: return JobPhase::kFailed;
    case v1::JOB_PHASE_CANCELLED: return JobPhase::kCancelled;
    default: return JobPhase::kUnknown;
  }
}

}  // namespace

absl::Status CheckTexts(const google::protobuf::Message& message) {
  using Field = google::protobuf::FieldDescriptor;
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const Field*> fields;
  reflection.ListFields(message, &fields);
  for (const Field* field : fields) {
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->type() == Field::TYPE_MESSAGE) {
        GDF_RETURN_IF_ERROR(CheckTexts(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, i)
                                                            : reflection.GetMessage(message, field)));
      } else if (field->type() == Field::TYPE_STRING) {
        GDF_RETURN_IF_ERROR(CheckUtf8(field->name(), field->is_repeated() ? reflection.GetRepeatedString(message, field, i)
                                                                          : reflection.GetString(message, field)));
      }
    }
  }
  return absl::OkStatus();
}

Gpu FromProto(const v1::Gpu& in) { return {in.name(), in.memory_bytes()}; }

Node FromProto(const v1::Node& in) {
  Node out;
  out.id = in.id();
  out.name = in.name();
  out.roles = in.roles();
  out.state = in.state();
  out.online = in.online();
  out.paused = in.paused();
  out.coordinator = in.coordinator();
  out.leads = in.leads();
  out.addresses.assign(in.addresses().begin(), in.addresses().end());
  out.cpu_threads = in.cpu_threads();
  out.memory_bytes = in.memory_bytes();
  for (const v1::Gpu& gpu : in.gpus()) out.gpus.push_back(FromProto(gpu));
  out.version = in.version();
  out.joined = TimeFrom(in.joined_unix_ms());
  out.rtt = absl::Seconds(in.rtt_seconds());
  out.bytes_sent = in.bytes_sent();
  out.bytes_received = in.bytes_received();
  return out;
}

Round FromProto(const v1::Round& in) {
  Round out;
  out.round = in.round();
  if (in.has_loss()) out.loss = in.loss();
  if (in.has_validation_loss()) out.validation_loss = in.validation_loss();
  out.tokens = in.tokens();
  out.tokens_per_sec = in.tokens_per_sec();
  out.utilisation = in.utilisation();
  out.epoch = in.epoch();
  out.bytes_sent = in.bytes_sent();
  out.bytes_received = in.bytes_received();
  out.compute = absl::Seconds(in.compute_seconds());
  out.compress = absl::Seconds(in.compress_seconds());
  out.exchange = absl::Seconds(in.exchange_seconds());
  out.aggregate = absl::Seconds(in.aggregate_seconds());
  out.members = in.members();
  out.digest = in.digest();
  out.fragment_digest = in.fragment_digest();
  out.at = TimeFrom(in.at_unix_ms());
  return out;
}

Event FromProto(const v1::Event& in) {
  return Event{in.id(), TimeFrom(in.at_unix_ms()), in.job(), in.node(), in.severity(), in.text(), in.node_name()};
}

Job FromProto(const v1::Job& in) {
  Job out;
  out.id = in.id();
  out.name = in.name();
  out.phase = PhaseFrom(in.phase());
  out.reason = in.reason();
  out.submitter = in.submitter();
  out.submitted = TimeFrom(in.submitted_unix_ms());
  out.started = TimeFrom(in.started_unix_ms());
  out.ended = TimeFrom(in.ended_unix_ms());
  out.epoch = in.epoch();
  out.lead = in.lead();
  out.members.assign(in.members().begin(), in.members().end());
  out.rounds_done = in.rounds_done();
  out.rounds_total = in.rounds_total();
  out.steps_total = in.steps_total();
  if (in.has_last_round()) out.last_round = FromProto(in.last_round());
  out.spec_yaml = in.spec_yaml();
  out.submitter_name = in.submitter_name();
  out.lead_name = in.lead_name();
  out.member_names.assign(in.member_names().begin(), in.member_names().end());
  return out;
}

NodeStatus FromProto(const v1::StatusReply& in) {
  NodeStatus out;
  out.version = in.version();
  out.node_id = in.node_id();
  out.node_name = in.node_name();
  out.network_id = in.network_id();
  out.network_name = in.network_name();
  out.roles = in.roles();
  out.coordinator = in.coordinator();
  out.coordinator_connected = in.coordinator_connected();
  out.coordinators = in.coordinators();
  out.leader = in.leader();
  out.leaderless = absl::Seconds(in.leaderless_seconds());
  out.log_index = in.log_index();
  out.listen.assign(in.listen().begin(), in.listen().end());
  out.advertise.assign(in.advertise().begin(), in.advertise().end());
  out.members = in.members();
  out.members_online = in.members_online();
  out.jobs_pending = in.jobs_pending();
  out.jobs_running = in.jobs_running();
  for (const v1::Job& job : in.running()) out.running.push_back(FromProto(job));
  out.warnings.assign(in.warnings().begin(), in.warnings().end());
  out.sandbox.assign(in.sandbox().begin(), in.sandbox().end());
  out.started = TimeFrom(in.started_unix_ms());
  out.chunk_bytes = in.chunk_bytes();
  out.chunk_cap_bytes = in.chunk_cap_bytes();
  for (const v1::Gpu& gpu : in.gpus()) out.gpus.push_back(FromProto(gpu));
  out.paused = in.paused();
  out.paused_until = TimeFrom(in.paused_until_unix_ms());
  out.running_here = in.running_here();
  return out;
}

CheckpointList FromProto(const v1::ListCheckpointsReply& in) {
  CheckpointList out;
  for (const v1::Checkpoint& checkpoint : in.checkpoints()) {
    Checkpoint& added = out.checkpoints.emplace_back();
    added.round = checkpoint.round();
    added.digest = checkpoint.digest();
    added.momentum_digest = checkpoint.momentum_digest();
    added.parameters = checkpoint.parameters();
    added.epoch = checkpoint.epoch();
    added.data_epoch = checkpoint.data_epoch();
    added.data_position = checkpoint.data_position();
    added.signers.assign(checkpoint.signers().begin(), checkpoint.signers().end());
    added.signer_names.assign(checkpoint.signer_names().begin(), checkpoint.signer_names().end());
    for (const v1::CheckpointCopy& copy : checkpoint.copies()) {
      added.copies.push_back({copy.node(), copy.node_name(), TimeFrom(copy.written_unix_ms()), copy.new_bytes(),
                              copy.inner_state(), copy.parameters()});
    }
    added.wanted = checkpoint.wanted();
  }
  out.silent.assign(in.silent().begin(), in.silent().end());
  out.silent_names.assign(in.silent_names().begin(), in.silent_names().end());
  out.passed_over.assign(in.passed_over().begin(), in.passed_over().end());
  return out;
}

CheckpointCheck FromProto(const v1::VerifyCheckpointReply& in) {
  CheckpointCheck out;
  out.chunks = in.chunks();
  out.bytes = in.bytes();
  out.parameters = in.parameters();
  out.outer_state = in.outer_state();
  out.inner_state = in.inner_state();
  for (const v1::VerifyCheckpointReply::Chunk& chunk : in.repaired()) out.repaired.push_back({chunk.id(), chunk.part()});
  for (const v1::VerifyCheckpointReply::Chunk& chunk : in.missing()) out.missing.push_back({chunk.id(), chunk.part()});
  out.why_not = in.why_not();
  out.wrong = in.wrong();
  return out;
}

Invite FromProto(const v1::Invite& in) {
  return Invite{in.id(), in.roles(), TimeFrom(in.expires_unix_ms()), in.uses_left(), in.revoked(), ""};
}

JobPlan FromProto(const v1::PlanReply& in) {
  JobPlan out;
  out.placeable = in.placeable();
  out.reason = in.reason();
  out.nodes.assign(in.nodes().begin(), in.nodes().end());
  out.lead = in.lead();
  out.parameters = in.parameters();
  out.rounds = in.rounds();
  out.bytes_per_round_per_node = in.bytes_per_round_per_node();
  for (const v1::CostItem& item : in.host_memory()) out.host_memory.emplace_back(item.name(), item.bytes());
  for (const v1::CostItem& item : in.gpu_memory()) out.gpu_memory.emplace_back(item.name(), item.bytes());
  out.duration = absl::Seconds(in.seconds());
  out.measured_in = in.measured_in();
  return out;
}

}  // namespace gdf::control
