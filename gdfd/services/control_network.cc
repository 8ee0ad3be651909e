#include <algorithm>

#include "absl/strings/str_join.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/trust/invite.h"
#include "gdfd/services/backup.h"
#include "gdfd/services/control_service.h"
#include "gdfd/services/ping.h"
#include "gdfd/services/to_proto.h"
#include "gdfd/version.h"

namespace gdf::services {

namespace v1 = control::v1;

namespace {

constexpr size_t kBackupPieceBytes = size_t{1} << 20;
// For the coordinator's answer: somebody waits at a terminal.
constexpr absl::Duration kAnswerWithin = absl::Seconds(5);

}  // namespace

absl::Status ControlService::CheckOperator(const char* what) const {
  if (rights_ == Rights::kOperator) return absl::OkStatus();
  const std::string& group = node_.config.operator_group;
  return absl::PermissionDeniedError(
      absl::StrCat("you may look but not ", what, ": be the user that gdfd runs as, root",
                   group.empty() ? std::string(", or set operator_group in gdfd.yaml")
                                 : absl::StrCat(", or in the group ", group)));
}

absl::StatusOr<wire::CommandResult> ControlService::Propose(wire::CommandBody body) {
  absl::StatusOr<wire::CommandResult> result = bridge_.Await<absl::StatusOr<wire::CommandResult>>(
      [this, body = std::move(body)]() mutable {
        return node_.membership.ProposeChecked(std::move(body), kAnswerWithin);
      });
  const bool late = absl::IsDeadlineExceeded(result.status());
  if (!late && !absl::IsUnavailable(result.status())) return result;
  const std::string why =
      bridge_.OnExecutor([&] { return Names().In(ToStd(result.status().message())); });
  return absl::Status(
      result.status().code(),
      absl::StrCat("the coordinator does not answer: ", why,
                   late ? "; it may have recorded this all the same: look before asking again"
                        : "; is gdfd running there, and reachable? Nothing changes without it"));
}

grpc::Status ControlService::Status(grpc::ServerContext*, const v1::StatusRequest*,
                                    v1::StatusReply* reply) {
  return ToGrpc(bridge_.OnExecutor([&]() -> absl::Status {
    reply->set_version(kVersion);
    const NodeId self = node_.transport.self();
    reply->set_node_id(self.ToString());
    reply->set_node_name(node_.membership.profile().name);
    for (const std::string& address : node_.listen) reply->add_listen(address);
    for (const std::string& address : node_.advertise) reply->add_advertise(address);
    for (const std::string& line : node_.sandbox) reply->add_sandbox(line);
    for (const std::string& line : node_.warnings) reply->add_warnings(line);
    if (!node_.gpu_problem.empty()) reply->add_warnings("GPU: " + node_.gpu_problem);
    for (const wire::GpuResource& gpu : node_.membership.profile().resources.gpus) {
      *reply->add_gpus() = ToProto(gpu);
    }
    reply->set_started_unix_ms(absl::ToUnixMillis(node_.started));
    reply->set_running_here(static_cast<uint32_t>(node_.jobs.running()));
    if (const std::optional<absl::Time>& until = node_.jobs.paused_until()) {
      reply->set_paused(true);
      if (*until != absl::InfiniteFuture()) reply->set_paused_until_unix_ms(absl::ToUnixMillis(*until));
    }
    const store::ChunkStore::Usage usage = node_.chunks->usage();
    reply->set_chunk_bytes(usage.bytes);
    reply->set_chunk_cap_bytes(usage.cap_bytes);
    if (!node_.state.has_network()) return absl::OkStatus();

    GDF_ASSIGN_OR_RETURN(state::Network network, node_.state.network());
    GDF_ASSIGN_OR_RETURN(std::vector<state::Member> members, node_.state.members());
    const NodeNames names(members);
    reply->set_network_id(network.id.ToString());
    reply->set_network_name(network.genesis.name);
    reply->set_coordinator(node_.membership.coordinator());
    reply->set_coordinator_connected(node_.membership.connected());
    reply->set_coordinators(static_cast<uint32_t>(network.coordinators.size()));
    if (const auto leader = node_.membership.leader()) reply->set_leader(names.Of(*leader));
    reply->set_leaderless_seconds(absl::ToDoubleSeconds(node_.membership.Leaderless()));
    const absl::Status expelled = node_.membership.CheckExpelled();
    if (!expelled.ok()) {
      reply->add_warnings(std::string(expelled.message()));
    } else if (!node_.membership.connected() && !node_.membership.last_error().ok()) {
      const std::string why(node_.membership.last_error().message());
      reply->add_warnings(absl::StrCat("no coordinator: ", names.In(why)));
    }
    if (const absl::Status recorded = node_.membership.RecordStatus(); !recorded.ok()) {
      reply->add_warnings(absl::StrCat("nothing is recorded for the network, and jobs only go on as they are: ", recorded.message()));
    }
    if (const auto ahead = node_.membership.FurthestAhead()) {
      const std::string name = names.Of(ahead->node);
      reply->add_warnings(absl::StrCat(
          name, " knows ", ahead->entries, " entries of the network's record, this coordinator had ",
          ahead->here, " when it asked: it was restored from an older backup, and ", name,
          " cannot follow it. Put a copy of the state.db of ", name,
          " in the place of the one here, with gdfd stopped on both; or give up what is missing: "
          "gdfctl leave there, and join with a new invite"));
    }
    reply->set_log_index(node_.state.last_applied());
    const std::vector<NodeId> online = node_.membership.Online();
    for (const NodeId& id : network.coordinators) {
      if (!node_.membership.connected() || std::binary_search(online.begin(), online.end(), id)) continue;
      const std::string name = names.Of(id);
      reply->add_warnings(absl::StrCat("coordinator ", name, " is not online, one of ", network.coordinators.size(),
                                       ". If it does not come back: gdfctl coordinator remove ", name,
                                       ", and gdfctl coordinator add another one"));
    }
    for (const state::Member& member : members) {
      if (member.id == self) {
        reply->set_node_name(member.profile.name);
        reply->set_roles(member.roles.ToString());
      }
      if (member.status != state::MemberStatus::kActive) continue;
      reply->set_members(reply->members() + 1);
      if (std::binary_search(online.begin(), online.end(), member.id)) {
        reply->set_members_online(reply->members_online() + 1);
      }
    }
    GDF_ASSIGN_OR_RETURN(std::vector<state::Job> jobs, node_.state.jobs());
    for (const state::Job& job : jobs) {
      if (job.phase == state::JobPhase::kPending)
        reply->set_jobs_pending(reply->jobs_pending() + 1);
      if (job.phase != state::JobPhase::kRunning) continue;
      reply->set_jobs_running(reply->jobs_running() + 1);
      *reply->add_running() = Describe(job, names);
    }
    return absl::OkStatus();
  }));
}

grpc::Status ControlService::CreateNetwork(grpc::ServerContext*,
                                           const v1::CreateNetworkRequest* request,
                                           v1::CreateNetworkReply* reply) {
  if (absl::Status allowed = CheckOperator("create a network"); !allowed.ok())
    return ToGrpc(allowed);
  absl::StatusOr<NetworkId> id = bridge_.OnExecutor([&] {
    absl::StatusOr<NetworkId> founded = node_.membership.Found(request->name());
    if (founded.ok()) node_.on_founded();
    return founded;
  });
  if (id.ok()) reply->set_network_id(id->ToString());
  return ToGrpc(id.status());
}

grpc::Status ControlService::Join(grpc::ServerContext*, const v1::JoinRequest* request,
                                  v1::JoinReply* reply) {
  if (absl::Status allowed = CheckOperator("join a network"); !allowed.ok()) return ToGrpc(allowed);
  absl::StatusOr<trust::Invite> invite = trust::Invite::Parse(request->invite());
  if (!invite.ok()) return ToGrpc(invite.status());
  const absl::Status joined = bridge_.Await<absl::Status>(
      [&] { return node_.membership.Join(*std::move(invite), request->node_name()); });
  if (!joined.ok()) return ToGrpc(joined);
  return ToGrpc(bridge_.OnExecutor([&]() -> absl::Status {
    GDF_ASSIGN_OR_RETURN(state::Network network, node_.state.network());
    GDF_ASSIGN_OR_RETURN(state::Member self, node_.state.member(node_.transport.self()));
    reply->set_network_id(network.id.ToString());
    reply->set_network_name(network.genesis.name);
    reply->set_roles(self.roles.ToString());
    return absl::OkStatus();
  }));
}

grpc::Status ControlService::Leave(grpc::ServerContext*, const v1::LeaveRequest*,
                                   v1::LeaveReply* reply) {
  if (absl::Status allowed = CheckOperator("leave the network"); !allowed.ok())
    return ToGrpc(allowed);
  absl::MutexLock one_leaves(&leaving_);  // another call for it ends as the first
  if (not_told_) {
    reply->set_not_told(*not_told_);
    return grpc::Status::OK;
  }
  bool listed = false;
  const absl::Status can = bridge_.OnExecutor([&]() -> absl::Status {
    if (!node_.state.has_network())
      return absl::FailedPreconditionError("this node is in no network");
    listed = node_.membership.CheckExpelled().ok();
    if (node_.membership.coordinator()) {
      GDF_ASSIGN_OR_RETURN(const state::Network network, node_.state.network());
      return absl::FailedPreconditionError(
          network.coordinators.size() > 1
              ? absl::StrCat("this node is one of ", network.coordinators.size(), " coordinators: gdfctl coordinator remove ",
                             node_.membership.profile().name, " first")
              : "this node is the network's coordinator: without it the network ends. To end it, "
                "stop gdfd and remove its state folder");
    }
    return absl::OkStatus();
  });
  if (!can.ok()) return ToGrpc(can);
  // A network that cannot be told, or that objects, keeps nobody. One that has put this node out,
  // whether that is recorded here yet or not, does not list it any more.
  absl::Status verdict;
  if (listed) {
    using Told = absl::StatusOr<wire::CommandResult>;
    const Told told = bridge_.Await<Told>([this] {
      return node_.membership.Propose(wire::RemoveNode{node_.transport.self(), "it left"},
                                      kAnswerWithin);
    });
    verdict = told.ok() ? told->status : told.status();
    if (absl::IsPermissionDenied(verdict)) verdict = absl::OkStatus();
  }
  const absl::Status left = bridge_.OnExecutor([&]() -> absl::Status {
    GDF_RETURN_IF_ERROR(node_.files.WriteAtomic(node_.state_dir + "/leave", ""));
    node_.restart("leaving the network");
    return absl::OkStatus();
  });
  if (!left.ok()) return ToGrpc(left);
  not_told_ = std::string(verdict.message());
  reply->set_not_told(*not_told_);
  return grpc::Status::OK;
}

grpc::Status ControlService::Pause(grpc::ServerContext*, const v1::PauseRequest* request,
                                   v1::PauseReply* reply) {
  if (absl::Status allowed = CheckOperator("pause this node"); !allowed.ok()) return ToGrpc(allowed);
  constexpr int64_t kMostSeconds = 10 * 365 * 86400;
  if (request->seconds() < 0 || request->seconds() > kMostSeconds) {
    return ToGrpc(absl::InvalidArgumentError(
        absl::StrCat("a pause of ", request->seconds(), " s: expected 0 (until it is resumed) to ten years")));
  }
  return ToGrpc(bridge_.OnExecutor([&] {
    const absl::Time until = request->seconds() == 0
                                 ? absl::InfiniteFuture()
                                 : node_.executor.clock().Now() + absl::Seconds(request->seconds());
    reply->set_running(static_cast<uint32_t>(node_.jobs.running()));
    return node_.jobs.Pause(until, request->now());
  }));
}

grpc::Status ControlService::Resume(grpc::ServerContext*, const v1::ResumeRequest*, v1::ResumeReply*) {
  if (absl::Status allowed = CheckOperator("resume this node"); !allowed.ok()) return ToGrpc(allowed);
  return ToGrpc(bridge_.OnExecutor([&] { return node_.jobs.Resume(); }));
}

grpc::Status ControlService::CreateInvite(grpc::ServerContext*,
                                          const v1::CreateInviteRequest* request,
                                          v1::CreateInviteReply* reply) {
  if (absl::Status allowed = CheckOperator("create an invite"); !allowed.ok())
    return ToGrpc(allowed);
  absl::StatusOr<trust::RoleSet> roles = trust::RoleSet::Parse(request->roles());
  if (!roles.ok()) return ToGrpc(roles.status());
  if (request->ttl_seconds() <= 0)
    return ToGrpc(absl::InvalidArgumentError("the time to live must be positive"));
  trust::Invite invite;
  const absl::Status filled = bridge_.OnExecutor([&]() -> absl::Status {
    GDF_ASSIGN_OR_RETURN(state::Network network, node_.state.network());
    invite.Randomize(node_.rng);
    invite.network = network.id;
    invite.roles = *roles;
    invite.expires_unix_ms =
        absl::ToUnixMillis(node_.executor.clock().Now()) + request->ttl_seconds() * 1000;
    for (const NodeId& id : network.coordinators) {
      GDF_ASSIGN_OR_RETURN(state::Member coordinator, node_.state.member(id));
      std::vector<std::string> addresses = coordinator.profile.addresses;
      if (id == node_.transport.self()) addresses = node_.advertise;
      if (!addresses.empty()) invite.coordinators.push_back({id, std::move(addresses)});
    }
    if (invite.coordinators.empty()) {
      return absl::FailedPreconditionError(
          "no coordinator has an address that others can dial; start gdfd with --advertise "
          "HOST:PORT on it");
    }
    return absl::OkStatus();
  });
  if (!filled.ok()) return ToGrpc(filled);
  wire::CreateInvite command;
  command.id = invite.id;
  command.secret_hash = trust::InviteSecretHash(invite.id, invite.secret);
  command.roles = roles->bits();
  command.expires_unix_ms = invite.expires_unix_ms;
  command.uses = request->uses();
  absl::StatusOr<std::string> text = invite.ToText();
  if (!text.ok()) return ToGrpc(text.status());
  absl::StatusOr<wire::CommandResult> made = Propose(std::move(command));
  if (!made.ok()) return ToGrpc(made.status());
  reply->set_text(*text);
  reply->mutable_invite()->set_id(trust::ToString(invite.id));
  reply->mutable_invite()->set_roles(roles->ToString());
  reply->mutable_invite()->set_expires_unix_ms(invite.expires_unix_ms);
  reply->mutable_invite()->set_uses_left(request->uses());
  return grpc::Status::OK;
}

grpc::Status ControlService::ListInvites(grpc::ServerContext*, const v1::ListInvitesRequest*,
                                         v1::ListInvitesReply* reply) {
  if (absl::Status allowed = CheckOperator("see invites"); !allowed.ok()) return ToGrpc(allowed);
  return ToGrpc(bridge_.OnExecutor([&]() -> absl::Status {
    GDF_ASSIGN_OR_RETURN(std::vector<state::InviteRecord> invites, node_.state.invites());
    for (const state::InviteRecord& invite : invites) *reply->add_invites() = ToProto(invite);
    return absl::OkStatus();
  }));
}

grpc::Status ControlService::RevokeInvite(grpc::ServerContext*,
                                          const v1::RevokeInviteRequest* request,
                                          v1::RevokeInviteReply*) {
  if (absl::Status allowed = CheckOperator("revoke an invite"); !allowed.ok())
    return ToGrpc(allowed);
  absl::StatusOr<trust::InviteId> id = trust::ParseInviteId(request->id());
  if (!id.ok()) return ToGrpc(id.status());
  return ToGrpc(Propose(wire::RevokeInvite{*id}).status());
}

grpc::Status ControlService::ListNodes(grpc::ServerContext*, const v1::ListNodesRequest*,
                                       v1::ListNodesReply* reply) {
  return ToGrpc(bridge_.OnExecutor([&]() -> absl::Status {
    GDF_ASSIGN_OR_RETURN(std::vector<state::Member> members, node_.state.members());
    const std::vector<NodeId> online = node_.membership.Online();
    for (const state::Member& member : members) {
      v1::Node* node = reply->add_nodes();
      *node = ToProto(member);
      node->set_paused(member.profile.resources.paused);
      node->set_online(member.id == node_.transport.self() ||
                       std::binary_search(online.begin(), online.end(), member.id));
      const net::TrafficCounters counters = node_.transport.counters(member.id);
      node->set_leads(node_.membership.leader() == member.id);
      node->set_rtt_seconds(absl::ToDoubleSeconds(counters.rtt));
      node->set_bytes_sent(counters.bytes_sent);
      node->set_bytes_received(counters.bytes_received);
    }
    return absl::OkStatus();
  }));
}

absl::Status ControlService::CheckQuorum(const state::Member& node, bool added) {
  GDF_ASSIGN_OR_RETURN(const state::Network network, node_.state.network());
  std::vector<NodeId> chosen = network.coordinators;
  std::erase(chosen, node.id);
  if (added) chosen.push_back(node.id);
  const std::vector<NodeId> online = node_.membership.Online();
  std::vector<std::string> offline;
  for (const NodeId& id : chosen) {
    if (!std::binary_search(online.begin(), online.end(), id)) offline.push_back(Names().Of(id));
  }
  if ((chosen.size() - offline.size()) * 2 > chosen.size() && (!added || node_.membership.IsOnline(node.id))) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("of the ", chosen.size(), " coordinators that there would be, most must be online, and one that is added; ",
                   absl::StrJoin(offline, ", "), offline.size() == 1 ? " is not" : " are not"));
}

grpc::Status ControlService::ChangeNode(grpc::ServerContext*, const v1::ChangeNodeRequest* request,
                                        v1::ChangeNodeReply*) {
  if (absl::Status allowed = CheckOperator("change members"); !allowed.ok()) return ToGrpc(allowed);
  absl::StatusOr<state::Member> member =
      bridge_.OnExecutor([&] { return node_.state.FindMember(request->node()); });
  if (!member.ok()) return ToGrpc(member.status());
  switch (request->change()) {
    case v1::ChangeNodeRequest::CHANGE_REMOVE:
      return ToGrpc(Propose(wire::RemoveNode{member->id, ""}).status());
    case v1::ChangeNodeRequest::CHANGE_BAN:
      return ToGrpc(Propose(wire::BanNode{member->id, ""}).status());
    case v1::ChangeNodeRequest::CHANGE_UNBAN:
      return ToGrpc(Propose(wire::UnbanNode{member->id}).status());
    case v1::ChangeNodeRequest::CHANGE_ROLE: {
      absl::StatusOr<trust::RoleSet> roles = trust::RoleSet::Parse(request->roles());
      if (!roles.ok()) return ToGrpc(roles.status());
      return ToGrpc(Propose(wire::SetRole{member->id, roles->bits()}).status());
    }
    case v1::ChangeNodeRequest::CHANGE_ADD_COORDINATOR:
    case v1::ChangeNodeRequest::CHANGE_REMOVE_COORDINATOR: {
      const bool added = request->change() == v1::ChangeNodeRequest::CHANGE_ADD_COORDINATOR;
      const absl::Status quorum = bridge_.OnExecutor([&] { return CheckQuorum(*member, added); });
      if (!quorum.ok()) return ToGrpc(quorum);
      wire::CommandBody change = wire::RemoveCoordinator{member->id};
      if (added) change = wire::AddCoordinator{member->id};
      return ToGrpc(Propose(std::move(change)).status());
    }
    default:
      return ToGrpc(absl::InvalidArgumentError("no change is named"));
  }
}

grpc::Status ControlService::Ping(grpc::ServerContext*, const v1::PingRequest* request,
                                  v1::PingReply* reply) {
  if (absl::Status allowed = CheckOperator("ping a node"); !allowed.ok()) return ToGrpc(allowed);
  absl::StatusOr<state::Member> member =
      bridge_.OnExecutor([&] { return node_.state.FindMember(request->node()); });
  if (!member.ok()) return ToGrpc(member.status());
  if (member->id == node_.transport.self()) {
    return ToGrpc(absl::InvalidArgumentError(absl::StrCat("'", request->node(), "' is this node")));
  }
  const absl::StatusOr<absl::Duration> took = bridge_.Await<absl::StatusOr<absl::Duration>>(
      [&] { return services::Ping(node_.transport, member->id, kAnswerWithin); });
  return ToGrpc(bridge_.OnExecutor([&]() -> absl::Status {
    if (!took.ok()) return absl::Status(took.status().code(), Names().In(ToStd(took.status().message())));
    const std::optional<net::PeerPath> path = node_.transport.path(member->id);
    if (!path) return absl::UnavailableError("the connection was lost after the answer");
    const net::TrafficCounters counters = node_.transport.counters(member->id);
    reply->set_id(member->id.ToString());
    reply->set_name(member->profile.name);
    reply->set_remote(path->remote);
    reply->set_dialled(path->dialled);
    reply->set_connections(static_cast<uint32_t>(path->connections));
    reply->set_round_trip_seconds(absl::ToDoubleSeconds(*took));
    reply->set_tcp_rtt_seconds(absl::ToDoubleSeconds(counters.rtt));
    reply->set_rate_bytes_per_sec(counters.rate_bytes_per_sec);
    reply->set_bulk_in_clear(path->clear);
    if (path->via) reply->set_relay(Names().Of(*path->via));
    return absl::OkStatus();
  }));
}

bool ControlService::IsInForce(const NodeId& next) const {
  if (node_.state.member(next).ok()) return true;
  const absl::StatusOr<trust::NodeKey> taken =
      trust::NodeKey::Load(node_.files, node_.state_dir + "/node.key");
  return taken.ok() && taken->id() == next;
}

grpc::Status ControlService::RotateKey(grpc::ServerContext*, const v1::RotateKeyRequest*,
                                       v1::RotateKeyReply* reply) {
  if (absl::Status allowed = CheckOperator("replace this node's key"); !allowed.ok())
    return ToGrpc(allowed);
  // Order: the new key is on disk before the network knows it, and takes over after; a crash
  // between leaves next.key, which the next start adopts when the network knows it.
  const std::string next_path = node_.state_dir + "/next.key";
  absl::StatusOr<trust::NodeKey> next = bridge_.OnExecutor([&]() -> absl::StatusOr<trust::NodeKey> {
    if (!node_.state.has_network())
      return absl::FailedPreconditionError("this node is in no network");
    return trust::NodeKey::LoadOrCreate(node_.files, next_path, node_.rng);
  });
  if (!next.ok()) return ToGrpc(next.status());
  absl::StatusOr<std::string> record = bridge_.OnExecutor([&]() -> absl::StatusOr<std::string> {
    GDF_ASSIGN_OR_RETURN(state::Network network, node_.state.network());
    return trust::KeyRotation::Make(network.id, node_.key, *next,
                                    absl::ToUnixMillis(node_.executor.clock().Now()));
  });
  if (!record.ok()) return ToGrpc(record.status());
  const absl::StatusOr<wire::CommandResult> recorded = Propose(wire::RotateKey{*record});
  const absl::Status ended = bridge_.OnExecutor([&]() -> absl::Status {
    if (!recorded.ok() && !IsInForce(next->id())) {
      // Refused by the log of a network that has this node as it was: nobody will know the new key.
      if (absl::IsFailedPrecondition(recorded.status())) {
        GDF_RETURN_IF_ERROR(node_.files.Remove(next_path));
      }
      return recorded.status();
    }
    node_.restart("taking the new key");
    return absl::OkStatus();
  });
  if (ended.ok()) reply->set_node_id(next->id().ToString());
  return ToGrpc(ended);
}

grpc::Status ControlService::Backup(grpc::ServerContext*, const v1::BackupRequest* request,
                                    grpc::ServerWriter<v1::BackupPiece>* writer) {
  if (absl::Status allowed = CheckOperator("back up this node"); !allowed.ok())
    return ToGrpc(allowed);
  absl::StatusOr<std::string> state = bridge_.OnExecutor([&]() -> absl::StatusOr<std::string> {
    if (!node_.state.has_network()) return std::string();
    return node_.state.Snapshot(kMaxBackupStateBytes);
  });
  if (!state.ok()) return ToGrpc(state.status());
  absl::StatusOr<std::string> sealed =
      SealBackup(node_.key, *state, request->passphrase(), node_.rng);
  if (!sealed.ok()) return ToGrpc(sealed.status());
  v1::BackupPiece piece;
  for (size_t at = 0; at < sealed->size(); at += kBackupPieceBytes) {
    piece.set_data(sealed->substr(at, kBackupPieceBytes));
    if (!writer->Write(piece)) return grpc::Status::CANCELLED;
  }
  return grpc::Status::OK;
}

}  // namespace gdf::services
