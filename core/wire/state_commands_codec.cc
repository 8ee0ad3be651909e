#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/base/encoding.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/wire/parse.h"
#include "core/wire/state_commands.h"
#include "proto/state.pb.h"

namespace gdf::wire {

namespace pb = ::gdf::state::v1;

namespace {

template <size_t n>
absl::Status Take(std::string_view field, const std::string& raw, std::array<uint8_t, n>& out) {
  if (raw.size() != n) {
    return absl::InvalidArgumentError(
        absl::StrCat(ToAbsl(field), " has ", raw.size(), " bytes, expected ", n));
  }
  std::memcpy(out.data(), raw.data(), n);
  return absl::OkStatus();
}

absl::Status Take(std::string_view field, const std::string& raw, Digest& out) {
  return Take(field, raw, out.bytes);
}

template <typename Tag>
absl::Status Take(std::string_view field, const std::string& raw, DigestId<Tag>& out) {
  Digest digest;
  GDF_RETURN_IF_ERROR(Take(field, raw, digest));
  out = DigestId<Tag>(digest);
  return absl::OkStatus();
}

// ---- parts

void Put(const NodeProfile& from, pb::NodeProfile* to) {
  to->set_name(from.name);
  for (const std::string& address : from.addresses) to->add_addresses(address);
  to->set_cpu_threads(from.resources.cpu_threads);
  to->set_memory_bytes(from.resources.memory_bytes);
  to->set_disk_cap_bytes(from.resources.disk_cap_bytes);
  to->set_paused(from.resources.paused);
  for (const GpuResource& gpu : from.resources.gpus) {
    pb::GpuResource* added = to->add_gpus();
    added->set_name(gpu.name);
    added->set_memory_bytes(gpu.memory_bytes);
  }
  to->set_version(from.version);
  to->set_relay(from.relay);
}

NodeProfile Get(const pb::NodeProfile& from) {
  NodeProfile to;
  to.name = from.name();
  to.addresses.assign(from.addresses().begin(), from.addresses().end());
  to.resources.cpu_threads = from.cpu_threads();
  to.resources.memory_bytes = from.memory_bytes();
  to.resources.disk_cap_bytes = from.disk_cap_bytes();
  to.resources.paused = from.paused();
  for (const pb::GpuResource& gpu : from.gpus()) {
    to.resources.gpus.push_back({gpu.name(), gpu.memory_bytes()});
  }
  to.version = from.version();
  to.relay = from.relay();
  return to;
}

template <typename Repeated>
void Put(const std::vector<JobInput>& from, Repeated* to) {
  for (const JobInput& input : from) {
    pb::JobInput* added = to->Add();
    added->set_name(input.name);
    added->set_manifest(Raw(input.manifest));
    added->set_size_bytes(input.size_bytes);
    added->set_holder(Raw(input.holder));
  }
}

template <typename Repeated>
absl::Status Get(const Repeated& from, std::vector<JobInput>& to) {
  for (const pb::JobInput& input : from) {
    JobInput& added = to.emplace_back();
    added.name = input.name();
    added.size_bytes = input.size_bytes();
    GDF_RETURN_IF_ERROR(Take("input manifest", input.manifest(), added.manifest));
    GDF_RETURN_IF_ERROR(Take("input holder", input.holder(), added.holder));
  }
  return absl::OkStatus();
}

void Put(const RoundMetrics& from, pb::RoundMetrics* to) {
  if (from.train_loss) to->set_train_loss(*from.train_loss);
  if (from.valid_loss) to->set_valid_loss(*from.valid_loss);
  to->set_tokens(from.tokens);
  to->set_tokens_per_sec(from.tokens_per_sec);
  to->set_bytes_sent(from.bytes_sent);
  to->set_bytes_received(from.bytes_received);
  to->set_compute_sec(from.compute_sec);
  to->set_compress_sec(from.compress_sec);
  to->set_exchange_sec(from.exchange_sec);
  to->set_aggregate_sec(from.aggregate_sec);
  to->set_utilisation(from.utilisation);
  to->set_contributors(from.contributors);
  if (!from.fragment.zero()) to->set_fragment(Raw(from.fragment.bytes));
}

absl::Status Get(const pb::RoundMetrics& from, RoundMetrics& to) {
  if (from.has_train_loss()) to.train_loss = from.train_loss();
  if (from.has_valid_loss()) to.valid_loss = from.valid_loss();
  to.tokens = from.tokens();
  to.tokens_per_sec = from.tokens_per_sec();
  to.bytes_sent = from.bytes_sent();
  to.bytes_received = from.bytes_received();
  to.compute_sec = from.compute_sec();
  to.compress_sec = from.compress_sec();
  to.exchange_sec = from.exchange_sec();
  to.aggregate_sec = from.aggregate_sec();
  to.utilisation = from.utilisation();
  to.contributors = from.contributors();
  return from.fragment().empty() ? absl::OkStatus() : Take("fragment", from.fragment(), to.fragment);
}

// ---- bodies, one Put and one Get each

void Put(const CreateNetwork& c, pb::Command* to) {
  to->mutable_create_network()->set_genesis(c.genesis);
  Put(c.node, to->mutable_create_network()->mutable_node());
}
absl::Status Get(const pb::CreateNetwork& from, CreateNetwork& c) {
  c.genesis = from.genesis();
  c.node = Get(from.node());
  return absl::OkStatus();
}

void Put(const CreateInvite& c, pb::Command* to) {
  pb::CreateInvite* m = to->mutable_create_invite();
  m->set_id(Raw(c.id));
  m->set_secret_hash(Raw(c.secret_hash));
  m->set_roles(c.roles);
  m->set_expires_unix_ms(c.expires_unix_ms);
  m->set_uses(c.uses);
}
absl::Status Get(const pb::CreateInvite& from, CreateInvite& c) {
  c.roles = from.roles();
  c.expires_unix_ms = from.expires_unix_ms();
  c.uses = from.uses();
  GDF_RETURN_IF_ERROR(Take("id", from.id(), c.id));
  return Take("secret_hash", from.secret_hash(), c.secret_hash);
}

void Put(const RevokeInvite& c, pb::Command* to) { to->mutable_revoke_invite()->set_id(Raw(c.id)); }
absl::Status Get(const pb::RevokeInvite& from, RevokeInvite& c) { return Take("id", from.id(), c.id); }

void Put(const Join& c, pb::Command* to) {
  pb::Join* m = to->mutable_join();
  m->set_network(Raw(c.network));
  m->set_invite(Raw(c.invite));
  m->set_secret_hash(Raw(c.secret_hash));
  m->set_public_key(Raw(c.public_key));
  Put(c.node, m->mutable_node());
}
absl::Status Get(const pb::Join& from, Join& c) {
  c.node = Get(from.node());
  GDF_RETURN_IF_ERROR(Take("network", from.network(), c.network));
  GDF_RETURN_IF_ERROR(Take("invite", from.invite(), c.invite));
  GDF_RETURN_IF_ERROR(Take("secret_hash", from.secret_hash(), c.secret_hash));
  return Take("public_key", from.public_key(), c.public_key);
}

void Put(const SetRole& c, pb::Command* to) {
  to->mutable_set_role()->set_node(Raw(c.node));
  to->mutable_set_role()->set_roles(c.roles);
}
absl::Status Get(const pb::SetRole& from, SetRole& c) {
  c.roles = from.roles();
  return Take("node", from.node(), c.node);
}

void Put(const RemoveNode& c, pb::Command* to) {
  to->mutable_remove_node()->set_node(Raw(c.node));
  to->mutable_remove_node()->set_reason(c.reason);
}
absl::Status Get(const pb::RemoveNode& from, RemoveNode& c) {
  c.reason = from.reason();
  return Take("node", from.node(), c.node);
}

void Put(const BanNode& c, pb::Command* to) {
  to->mutable_ban_node()->set_node(Raw(c.node));
  to->mutable_ban_node()->set_reason(c.reason);
}
absl::Status Get(const pb::BanNode& from, BanNode& c) {
  c.reason = from.reason();
  return Take("node", from.node(), c.node);
}

void Put(const UnbanNode& c, pb::Command* to) { to->mutable_unban_node()->set_node(Raw(c.node)); }
absl::Status Get(const pb::UnbanNode& from, UnbanNode& c) { return Take("node", from.node(), c.node); }

void Put(const RotateKey& c, pb::Command* to) { to->mutable_rotate_key()->set_record(c.record); }
absl::Status Get(const pb::RotateKey& from, RotateKey& c) {
  c.record = from.record();
  return absl::OkStatus();
}

void Put(const UpdateNode& c, pb::Command* to) { Put(c.node, to->mutable_update_node()->mutable_node()); }
absl::Status Get(const pb::UpdateNode& from, UpdateNode& c) {
  c.node = Get(from.node());
  return absl::OkStatus();
}

void Put(const SubmitJob& c, pb::Command* to) {
  pb::SubmitJob* m = to->mutable_submit_job();
  m->set_name(c.name);
  m->set_submit_token(c.submit_token);
  m->set_spec_yaml(c.spec_yaml);
  Put(c.inputs, m->mutable_inputs());
  m->set_planned_rounds(c.planned_rounds);
}
absl::Status Get(const pb::SubmitJob& from, SubmitJob& c) {
  c.name = from.name();
  c.submit_token = from.submit_token();
  c.spec_yaml = from.spec_yaml();
  c.planned_rounds = from.planned_rounds();
  return Get(from.inputs(), c.inputs);
}

void Put(const OpenEpoch& c, pb::Command* to) {
  pb::OpenEpoch* m = to->mutable_open_epoch();
  m->set_job(c.job.value);
  m->set_epoch(c.epoch.value);
  for (const NodeId& member : c.members) m->add_members(Raw(member));
  m->set_lead(Raw(c.lead));
  m->set_reason(c.reason);
}
absl::Status Get(const pb::OpenEpoch& from, OpenEpoch& c) {
  c.job.value = from.job();
  c.epoch.value = from.epoch();
  c.reason = from.reason();
  if (static_cast<size_t>(from.members_size()) > kMaxEpochMembers) {
    return absl::InvalidArgumentError(absl::StrCat("number of members is ", from.members_size(),
                                                   ", expected at most ", kMaxEpochMembers));
  }
  for (const std::string& member : from.members()) {
    GDF_RETURN_IF_ERROR(Take("member", member, c.members.emplace_back()));
  }
  return Take("lead", from.lead(), c.lead);
}

void Put(const ReportJob& c, pb::Command* to) {
  pb::ReportJob* m = to->mutable_report_job();
  m->set_job(c.job.value);
  m->set_epoch(c.epoch.value);
  m->set_round(c.round.value);
  m->set_theta(Raw(c.theta));
  Put(c.metrics, m->mutable_metrics());
  m->set_message(c.message);
}
absl::Status Get(const pb::ReportJob& from, ReportJob& c) {
  c.job.value = from.job();
  c.epoch.value = from.epoch();
  c.round.value = from.round();
  c.message = from.message();
  GDF_RETURN_IF_ERROR(Get(from.metrics(), c.metrics));
  return Take("theta", from.theta(), c.theta);
}

void Put(const FinishJob& c, pb::Command* to) {
  pb::FinishJob* m = to->mutable_finish_job();
  m->set_job(c.job.value);
  m->set_epoch(c.epoch.value);
  m->set_verdict(static_cast<uint32_t>(c.verdict));
  m->set_reason(c.reason);
  m->set_theta(Raw(c.theta));
  m->set_rounds_done(c.rounds_done);
}
absl::Status Get(const pb::FinishJob& from, FinishJob& c) {
  c.job.value = from.job();
  c.epoch.value = from.epoch();
  c.verdict = static_cast<Verdict>(from.verdict());
  c.reason = from.reason();
  c.rounds_done = from.rounds_done();
  return Take("theta", from.theta(), c.theta);
}

void Put(const CancelJob& c, pb::Command* to) {
  to->mutable_cancel_job()->set_job(c.job.value);
  to->mutable_cancel_job()->set_reason(c.reason);
}
absl::Status Get(const pb::CancelJob& from, CancelJob& c) {
  c.job.value = from.job();
  c.reason = from.reason();
  return absl::OkStatus();
}

void Put(const JobEvent& c, pb::Command* to) {
  pb::JobEvent* m = to->mutable_job_event();
  m->set_job(c.job.value);
  m->set_node(Raw(c.node));
  m->set_severity(static_cast<uint32_t>(c.severity));
  m->set_text(c.text);
}
absl::Status Get(const pb::JobEvent& from, JobEvent& c) {
  c.job.value = from.job();
  c.severity = static_cast<Severity>(from.severity());
  c.text = from.text();
  return Take("node", from.node(), c.node);
}

void Put(const Recruit& c, pb::Command* to) {
  pb::Recruit* m = to->mutable_recruit();
  m->set_job(c.job.value);
  m->set_node(Raw(c.node));
  m->set_action(static_cast<uint32_t>(c.action));
  m->set_reason(c.reason);
}
absl::Status Get(const pb::Recruit& from, Recruit& c) {
  c.job.value = from.job();
  c.action = static_cast<RecruitAction>(from.action());
  c.reason = from.reason();
  return Take("node", from.node(), c.node);
}

void Put(const RollBackJob& c, pb::Command* to) {
  pb::RollBackJob* m = to->mutable_roll_back_job();
  m->set_job(c.job.value);
  m->set_round(c.round.value);
  m->set_theta(Raw(c.theta));
  m->set_reason(c.reason);
  m->set_epoch(c.epoch.value);
}
absl::Status Get(const pb::RollBackJob& from, RollBackJob& c) {
  c.job.value = from.job();
  c.round.value = from.round();
  c.epoch.value = from.epoch();
  c.reason = from.reason();
  return Take("theta", from.theta(), c.theta);
}

void Put(const AddCoordinator& c, pb::Command* to) { to->mutable_add_coordinator()->set_node(Raw(c.node)); }
absl::Status Get(const pb::AddCoordinator& from, AddCoordinator& c) { return Take("node", from.node(), c.node); }

void Put(const RemoveCoordinator& c, pb::Command* to) { to->mutable_remove_coordinator()->set_node(Raw(c.node)); }
absl::Status Get(const pb::RemoveCoordinator& from, RemoveCoordinator& c) { return Take("node", from.node(), c.node); }

void Put(const RecoverNetwork&, pb::Command* to) { to->mutable_recover_network(); }
absl::Status Get(const pb::RecoverNetwork&, RecoverNetwork&) { return absl::OkStatus(); }

template <typename Body, typename Message>
absl::Status GetBody(const Message& from, CommandBody& to) {
  return Get(from, to.emplace<Body>());
}

absl::Status GetCommandBody(const pb::Command& from, CommandBody& to) {
  switch (from.body_case()) {
    case pb::Command::kCreateNetwork: return GetBody<CreateNetwork>(from.create_network(), to);
    case pb::Command::kCreateInvite: return GetBody<CreateInvite>(from.create_invite(), to);
    case pb::Command::kRevokeInvite: return GetBody<RevokeInvite>(from.revoke_invite(), to);
    case pb::Command::kJoin: return GetBody<Join>(from.join(), to);
    case pb::Command::kSetRole: return GetBody<SetRole>(from.set_role(), to);
    case pb::Command::kRemoveNode: return GetBody<RemoveNode>(from.remove_node(), to);
    case pb::Command::kBanNode: return GetBody<BanNode>(from.ban_node(), to);
    case pb::Command::kUnbanNode: return GetBody<UnbanNode>(from.unban_node(), to);
    case pb::Command::kRotateKey: return GetBody<RotateKey>(from.rotate_key(), to);
    case pb::Command::kUpdateNode: return GetBody<UpdateNode>(from.update_node(), to);
    case pb::Command::kSubmitJob: return GetBody<SubmitJob>(from.submit_job(), to);
    case pb::Command::kOpenEpoch: return GetBody<OpenEpoch>(from.open_epoch(), to);
    case pb::Command::kReportJob: return GetBody<ReportJob>(from.report_job(), to);
    case pb::Command::kFinishJob: return GetBody<FinishJob>(from.finish_job(), to);
    case pb::Command::kCancelJob: return GetBody<CancelJob>(from.cancel_job(), to);
    case pb::Command::kJobEvent: return GetBody<JobEvent>(from.job_event(), to);
    case pb::Command::kRecruit: return GetBody<Recruit>(from.recruit(), to);
    case pb::Command::kRollBackJob: return GetBody<RollBackJob>(from.roll_back_job(), to);
    case pb::Command::kAddCoordinator: return GetBody<AddCoordinator>(from.add_coordinator(), to);
    case pb::Command::kRemoveCoordinator: return GetBody<RemoveCoordinator>(from.remove_coordinator(), to);
    case pb::Command::kRecoverNetwork: return GetBody<RecoverNetwork>(from.recover_network(), to);
    case pb::Command::BODY_NOT_SET: break;
  }
  return absl::InvalidArgumentError(
      "the command is of no kind that this version knows; a newer version may have made it");
}

}  // namespace

std::string EncodeCommand(const Command& command) {
  pb::Command message;
  message.set_request(Raw(command.request));
  message.set_actor(Raw(command.actor));
  message.set_at_unix_ms(command.at_unix_ms);
  std::visit([&message](const auto& body) { Put(body, &message); }, command.body);
  return message.SerializeAsString();
}

absl::StatusOr<Command> DecodeCommand(std::string_view bytes) {
  GDF_ASSIGN_OR_RETURN(const pb::Command message, ParseMessage<pb::Command>(bytes, "command", kMaxCommandBytes));
  Command command;
  GDF_RETURN_IF_ERROR(Take("request", message.request(), command.request));
  GDF_RETURN_IF_ERROR(Take("actor", message.actor(), command.actor));
  command.at_unix_ms = message.at_unix_ms();
  GDF_RETURN_IF_ERROR(GetCommandBody(message, command.body));
  GDF_RETURN_IF_ERROR(CheckCommand(command));
  return command;
}

std::string EncodeCommandResult(const CommandResult& result) {
  pb::CommandResult message;
  message.set_code(static_cast<uint32_t>(result.status.code()));
  message.set_message(std::string(result.status.message()));
  message.set_job(result.job.value);
  message.set_name(result.name);
  return message.SerializeAsString();
}

absl::StatusOr<CommandResult> DecodeCommandResult(std::string_view bytes) {
  GDF_ASSIGN_OR_RETURN(const pb::CommandResult message, ParseMessage<pb::CommandResult>(bytes, "command result", kMaxCommandBytes));
  if (message.code() > static_cast<uint32_t>(absl::StatusCode::kUnauthenticated)) {
    return absl::InvalidArgumentError(absl::StrCat("status code ", message.code(), " is not one of 0 to 16"));
  }
  CommandResult result;
  result.status = absl::Status(static_cast<absl::StatusCode>(message.code()), message.message());
  result.job.value = message.job();
  result.name = message.name();
  return result;
}

std::string EncodeNodeProfile(const NodeProfile& profile) {
  pb::NodeProfile message;
  Put(profile, &message);
  return message.SerializeAsString();
}

absl::StatusOr<NodeProfile> DecodeNodeProfile(std::string_view bytes) {
  GDF_ASSIGN_OR_RETURN(const pb::NodeProfile message, ParseMessage<pb::NodeProfile>(bytes, "node profile", kMaxCommandBytes));
  NodeProfile profile = Get(message);
  GDF_RETURN_IF_ERROR(CheckNodeProfile(profile));
  return profile;
}

std::string EncodeJobInputs(const std::vector<JobInput>& inputs) {
  pb::JobInputs message;
  Put(inputs, message.mutable_inputs());
  return message.SerializeAsString();
}

absl::StatusOr<std::vector<JobInput>> DecodeJobInputs(std::string_view bytes) {
  GDF_ASSIGN_OR_RETURN(const pb::JobInputs message, ParseMessage<pb::JobInputs>(bytes, "list of job inputs", kMaxCommandBytes));
  std::vector<JobInput> inputs;
  GDF_RETURN_IF_ERROR(Get(message.inputs(), inputs));
  GDF_RETURN_IF_ERROR(CheckJobInputs(inputs));
  return inputs;
}

std::string EncodeRoundMetrics(const RoundMetrics& metrics) {
  pb::RoundMetrics message;
  Put(metrics, &message);
  return message.SerializeAsString();
}

absl::StatusOr<RoundMetrics> DecodeRoundMetrics(std::string_view bytes) {
  GDF_ASSIGN_OR_RETURN(const pb::RoundMetrics message, ParseMessage<pb::RoundMetrics>(bytes, "record of round metrics", kMaxCommandBytes));
  RoundMetrics metrics;
  GDF_RETURN_IF_ERROR(Get(message, metrics));
  GDF_RETURN_IF_ERROR(CheckRoundMetrics(metrics));
  return metrics;
}

}  // namespace gdf::wire
