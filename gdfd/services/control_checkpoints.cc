// The control API's calls about checkpoints that are kept.
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/trust/node_key.h"
#include "gdfd/services/control_service.h"
#include "gdfd/services/to_proto.h"

namespace gdf::services {

namespace v1 = control::v1;

namespace {

v1::Checkpoint ToProto(const jobs::KeptCheckpoint& kept, uint64_t wanted, const NodeNames& names) {
  const checkpoint::Version& version = kept.version();
  v1::Checkpoint out;
  out.set_round(version.round().value);
  out.set_digest(version.state().theta.ToHex());
  if (!version.state().momentum.zero()) out.set_momentum_digest(version.state().momentum.ToHex());
  out.set_parameters(version.num_params);
  out.set_epoch(version.commit.receipt.tag.epoch.value);
  out.set_data_epoch(version.state().cursor.epoch);
  out.set_data_position(version.state().cursor.position);
  for (const wire::NodeSignature& signature : version.commit.signatures) {
    const NodeId signer = trust::NodeIdOf(signature.public_key);
    out.add_signers(signer.ToString());
    out.add_signer_names(names.Of(signer));
  }
  for (const jobs::KeptCheckpoint::Copy& copy : kept.copies) {
    v1::CheckpointCopy* added = out.add_copies();
    added->set_node(copy.node.ToString());
    added->set_node_name(names.Of(copy.node));
    added->set_written_unix_ms(copy.version.written_unix_ms);
    added->set_new_bytes(copy.version.new_bytes);
    added->set_inner_state(!copy.version.inner.zero());
    added->set_parameters(copy.version.holds());
  }
  out.set_wanted(wanted);
  return out;
}

// All but why_not, which names nodes.
v1::VerifyCheckpointReply ToProto(const jobs::CheckedCheckpoint& checked) {
  v1::VerifyCheckpointReply out;
  out.set_chunks(checked.found.chunks);
  out.set_bytes(checked.found.bytes);
  out.set_parameters(checked.model);
  out.set_outer_state(checked.outer);
  out.set_inner_state(checked.inner);
  const auto add = [](const store::ChunkId& chunk, const std::string& part, v1::VerifyCheckpointReply::Chunk* to) {
    to->set_id(chunk.ToHex());
    to->set_part(part);
  };
  for (const auto& chunk : checked.repaired) add(chunk.id, chunk.part, out.add_repaired());
  for (const auto& chunk : checked.found.missing) add(chunk.id, chunk.part, out.add_missing());
  out.set_wrong(std::string(checked.found.digests.message()));
  return out;
}

}  // namespace

grpc::Status ControlService::ListCheckpoints(grpc::ServerContext*, const v1::ListCheckpointsRequest* request,
                                             v1::ListCheckpointsReply* reply) {
  const absl::StatusOr<JobId> id = ParseJobId(request->job());
  if (!id.ok()) return ToGrpc(id.status());
  using Listed = absl::StatusOr<jobs::CheckpointList>;
  const Listed list = bridge_.Await<Listed>([&] { return node_.jobs.checkpoints().List(*id); });
  if (!list.ok()) return ToGrpc(list.status());
  return ToGrpc(bridge_.OnExecutor([&]() -> absl::Status {
    const NodeNames names = Names();
    for (const jobs::KeptCheckpoint& kept : list->checkpoints) {
      *reply->add_checkpoints() = ToProto(kept, list->wanted, names);
    }
    for (const NodeId& silent : list->silent) {
      reply->add_silent(silent.ToString());
      reply->add_silent_names(names.Of(silent));
    }
    for (const std::string& damage : list->passed_over) reply->add_passed_over(damage);
    return absl::OkStatus();
  }));
}

grpc::Status ControlService::VerifyCheckpoint(grpc::ServerContext*, const v1::VerifyCheckpointRequest* request,
                                              grpc::ServerWriter<v1::VerifyCheckpointReply>* writer) {
  if (absl::Status allowed = CheckOperator("verify checkpoints"); !allowed.ok()) return ToGrpc(allowed);
  const absl::StatusOr<JobId> id = ParseJobId(request->job());
  if (!id.ok()) return ToGrpc(id.status());
  using Checked = absl::StatusOr<jobs::CheckedCheckpoint>;
  const Checked checked =
      bridge_.Await<Checked>([&] { return node_.jobs.checkpoints().Verify(*id, RoundId{request->round()}); });
  if (!checked.ok()) return ToGrpc(checked.status());
  v1::VerifyCheckpointReply reply = ToProto(*checked);
  const absl::Status named = bridge_.OnExecutor([&]() -> absl::Status {
    reply.set_why_not(Names().In(checked->why_not));
    return absl::OkStatus();
  });
  if (!named.ok()) return ToGrpc(named);
  writer->Write(reply);
  return grpc::Status::OK;
}

grpc::Status ControlService::RemoveCheckpoint(grpc::ServerContext*, const v1::RemoveCheckpointRequest* request,
                                              v1::RemoveCheckpointReply*) {
  if (absl::Status allowed = CheckOperator("remove checkpoints"); !allowed.ok()) return ToGrpc(allowed);
  const absl::StatusOr<JobId> id = ParseJobId(request->job());
  if (!id.ok()) return ToGrpc(id.status());
  return ToGrpc(bridge_.Await<absl::Status>(
      [&] { return node_.jobs.checkpoints().Remove(*id, RoundId{request->round()}); }));
}

grpc::Status ControlService::RollBackJob(grpc::ServerContext*, const v1::RollBackJobRequest* request,
                                         v1::RollBackJobReply*) {
  if (absl::Status allowed = CheckOperator("roll jobs back"); !allowed.ok()) return ToGrpc(allowed);
  const absl::StatusOr<JobId> id = ParseJobId(request->job());
  if (!id.ok()) return ToGrpc(id.status());
  using Listed = absl::StatusOr<jobs::CheckpointList>;
  const Listed list = bridge_.Await<Listed>([&] { return node_.jobs.checkpoints().List(*id); });
  if (!list.ok()) return ToGrpc(list.status());
  const checkpoint::Version* const target = jobs::NewestOf(*list, RoundId{request->round()}, RoundId{request->round()});
  if (target == nullptr) {
    return ToGrpc(absl::NotFoundError(absl::StrCat("no node that answers keeps a checkpoint of round ", request->round(),
                                                   " of job ", ToString(*id))));
  }
  return ToGrpc(Propose(wire::RollBackJob{*id, target->round(), target->state().theta, request->reason()}).status());
}

}  // namespace gdf::services
