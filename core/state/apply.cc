#include "core/state/apply.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/state/apply_internal.h"
#include "core/state/ballot.h"

namespace gdf::state {

// ---- members

absl::Status Applier::On(const wire::CreateNetwork& c) {
  GDF_ASSIGN_OR_RETURN(const int64_t networks, Count("network"));
  if (networks != 0) return absl::AlreadyExistsError("this network exists already");
  GDF_ASSIGN_OR_RETURN(const trust::Genesis genesis, trust::Genesis::Parse(c.genesis));
  if (genesis.coordinator() != actor()) {
    return absl::PermissionDeniedError(absl::StrCat("the genesis of ", genesis.name, " names coordinator ",
                                                    genesis.coordinator().Short(), ", not ", actor().Short()));
  }
  GDF_RETURN_IF_ERROR(db_.Run("INSERT INTO network(one, record) VALUES(1, ?)", ToBlob(c.genesis)));
  GDF_RETURN_IF_ERROR(db_.Run("INSERT INTO coordinators(node) VALUES(?)", ToBlob(actor())));
  GDF_RETURN_IF_ERROR(AddMember(actor(), genesis.coordinator_key, trust::RoleSet::All(), c.node));
  return AddEvent({}, actor(), wire::Severity::kInfo,
                  absl::StrCat("network ", genesis.name, " created by ", result_.name));
}

absl::Status Applier::On(const wire::CreateInvite& c) {
  GDF_RETURN_IF_ERROR(CheckMember(db_, actor(), trust::Operation::kCreateInvite));
  GDF_ASSIGN_OR_RETURN(const trust::RoleSet roles, trust::RoleSet::FromBits(c.roles));
  GDF_ASSIGN_OR_RETURN(const trust::Genesis genesis, ReadGenesis());
  if (c.expires_unix_ms <= now()) return absl::InvalidArgumentError("the invite's expiry is in the past");
  const uint64_t ttl_ms = static_cast<uint64_t>(c.expires_unix_ms - now());
  if (ttl_ms > genesis.policy.max_invite_ttl_ms) {
    return absl::InvalidArgumentError(
        absl::StrCat("the invite would be valid for ", HumanDuration(absl::Milliseconds(ttl_ms)),
                     "; this network allows at most ",
                     HumanDuration(absl::Milliseconds(genesis.policy.max_invite_ttl_ms)), " (--ttl)"));
  }
  GDF_ASSIGN_OR_RETURN(const int64_t same, Count("invites WHERE id = ?", ToBlob(c.id)));
  if (same != 0) return absl::AlreadyExistsError(absl::StrCat("invite ", trust::ToString(c.id), " exists already"));
  GDF_RETURN_IF_ERROR(db_.Run(
      "INSERT INTO invites(id, secret_hash, roles, created, expires, allowed, uses, revoked, created_by) "
      "VALUES(?, ?, ?, ?, ?, ?, 0, 0, ?)",
      ToBlob(c.id), c.secret_hash, c.roles, now(), c.expires_unix_ms, c.uses, ToBlob(actor())));
  return AddEvent({}, actor(), wire::Severity::kInfo,
                  absl::StrCat("invite ", trust::ToString(c.id), " created for ", roles.ToString(), ", ", Counted(c.uses, "use")));
}

absl::Status Applier::On(const wire::RevokeInvite& c) {
  GDF_RETURN_IF_ERROR(CheckMember(db_, actor(), trust::Operation::kRevokeInvite));
  GDF_ASSIGN_OR_RETURN(const int64_t found, Count("invites WHERE id = ?", ToBlob(c.id)));
  if (found == 0) return absl::NotFoundError(absl::StrCat("there is no invite ", trust::ToString(c.id)));
  GDF_RETURN_IF_ERROR(db_.Run("UPDATE invites SET revoked = 1 WHERE id = ?", ToBlob(c.id)));
  return AddEvent({}, actor(), wire::Severity::kInfo, absl::StrCat("invite ", trust::ToString(c.id), " revoked"));
}

absl::StatusOr<trust::RoleSet> Applier::UseInvite(const wire::Join& c) {
  GDF_ASSIGN_OR_RETURN(store::Rows rows,
                       db_.Query("SELECT secret_hash, roles, expires, allowed, uses, revoked FROM invites WHERE id = ?",
                                 ToBlob(c.invite)));
  if (!rows.Next()) {
    GDF_RETURN_IF_ERROR(rows.status());
    return absl::PermissionDeniedError("this network has not issued that invite; ask an admin for a new one");
  }
  GDF_ASSIGN_OR_RETURN(const Digest secret_hash, DigestColumn(rows, 0));
  // Hashes of high-entropy secrets, so that a plain comparison tells an attacker nothing of use.
  if (secret_hash != c.secret_hash) {
    return absl::PermissionDeniedError("the invite's secret is wrong: it was altered or forged");
  }
  if (rows.Int(5) != 0) return absl::PermissionDeniedError("the invite was revoked; ask an admin for a new one");
  if (rows.Int(2) <= now()) {
    return absl::PermissionDeniedError(
        absl::StrCat("the invite expired ", HumanDuration(absl::Milliseconds(now() - rows.Int(2))),
                     " ago; ask an admin for a new one"));
  }
  if (rows.Int(4) >= rows.Int(3)) {
    return absl::PermissionDeniedError(absl::StrCat("the invite was good for ", Counted(rows.Int(3), "node"),
                                                    " and is used up; ask an admin for a new one"));
  }
  GDF_ASSIGN_OR_RETURN(const trust::RoleSet roles, trust::RoleSet::FromBits(static_cast<uint32_t>(rows.Int(1))));
  GDF_RETURN_IF_ERROR(db_.Run("UPDATE invites SET uses = uses + 1 WHERE id = ?", ToBlob(c.invite)));
  return roles;
}

absl::Status Applier::On(const wire::Join& c) {
  if (trust::NodeIdOf(c.public_key) != actor()) {
    return absl::PermissionDeniedError(
        absl::StrCat("the public key shown is not that of node ", actor().Short()));
  }
  GDF_ASSIGN_OR_RETURN(const std::string record, ReadGenesisRecord());
  GDF_ASSIGN_OR_RETURN(const trust::Genesis genesis, trust::Genesis::Parse(record));
  if (trust::NetworkIdOf(record) != c.network) {
    return absl::PermissionDeniedError(absl::StrCat("the invite is for another network (", c.network.Short(),
                                                    "), this one is ", genesis.name, " (",
                                                    trust::NetworkIdOf(record).Short(), ")"));
  }
  const absl::StatusOr<Member> known = ReadMember(db_, actor());
  if (known.ok() && known->status == MemberStatus::kBanned) {
    return absl::PermissionDeniedError(absl::StrCat(
        "this node is banned from network ", genesis.name, known->reason.empty() ? "" : ": ", known->reason,
        "; an admin lifts the ban with gdfctl node unban ", known->profile.name));
  }
  if (known.ok() && known->status == MemberStatus::kActive) {
    return absl::AlreadyExistsError(
        absl::StrCat("this node is a member of network ", genesis.name, " already, as ", known->profile.name));
  }
  GDF_ASSIGN_OR_RETURN(const int64_t old, Count("rotated WHERE old_id = ?", ToBlob(actor())));
  if (old != 0) return absl::PermissionDeniedError("this key was replaced by another; join with the new one");
  GDF_ASSIGN_OR_RETURN(const int64_t active, Count("members WHERE status = 0"));
  if (active >= genesis.policy.max_members) {
    return absl::ResourceExhaustedError(absl::StrCat("network ", genesis.name, " is full: it has ", active,
                                                     " members, its policy allows ", genesis.policy.max_members));
  }
  GDF_ASSIGN_OR_RETURN(const trust::RoleSet roles, UseInvite(c));
  GDF_RETURN_IF_ERROR(AddMember(actor(), c.public_key, roles, c.node));
  return AddEvent({}, actor(), wire::Severity::kInfo,
                  absl::StrCat("node ", result_.name, " joined as ", roles.ToString()));
}

absl::Status Applier::On(const wire::SetRole& c) {
  GDF_RETURN_IF_ERROR(CheckMember(db_, actor(), trust::Operation::kSetRole));
  GDF_ASSIGN_OR_RETURN(const Member member, ActiveMember(c.node));
  GDF_ASSIGN_OR_RETURN(const trust::RoleSet roles, trust::RoleSet::FromBits(c.roles));
  if (!roles.Has(trust::Role::kAdmin)) GDF_RETURN_IF_ERROR(CheckNotLastAdmin(member));
  GDF_RETURN_IF_ERROR(db_.Run("UPDATE members SET roles = ? WHERE id = ?", c.roles, ToBlob(c.node)));
  return AddEvent({}, c.node, wire::Severity::kInfo,
                  absl::StrCat("node ", member.profile.name, " is now ", roles.ToString(), ", was ",
                               member.roles.ToString()));
}

absl::Status Applier::Expel(const NodeId& node, MemberStatus status, const std::string& reason) {
  GDF_ASSIGN_OR_RETURN(const Member member, ReadMember(db_, node));
  if (member.status == status || (status == MemberStatus::kRemoved && member.status == MemberStatus::kBanned)) {
    return absl::FailedPreconditionError(
        absl::StrCat("node ", member.profile.name, " is ", ToAbsl(ToString(member.status)), " already"));
  }
  if (member.coordinator) {
    return absl::FailedPreconditionError(
        absl::StrCat("node ", member.profile.name, " is a coordinator: gdfctl coordinator remove ", member.profile.name,
                     " first"));
  }
  if (member.status == MemberStatus::kActive) GDF_RETURN_IF_ERROR(CheckNotLastAdmin(member));
  GDF_RETURN_IF_ERROR(db_.Run("UPDATE members SET status = ?, reason = ? WHERE id = ?", static_cast<int64_t>(status),
                              reason, ToBlob(node)));
  return AddEvent({}, node, wire::Severity::kWarning,
                  absl::StrCat("node ", member.profile.name, " was ", ToAbsl(ToString(status)),
                               reason.empty() ? "" : ": ", reason));
}

absl::Status Applier::On(const wire::RemoveNode& c) {
  const bool leaves = c.node == actor();  // any member may leave
  GDF_RETURN_IF_ERROR(
      CheckMember(db_, actor(), leaves ? trust::Operation::kUpdateNode : trust::Operation::kRemoveNode));
  return Expel(c.node, MemberStatus::kRemoved, c.reason);
}

absl::Status Applier::On(const wire::BanNode& c) {
  GDF_RETURN_IF_ERROR(CheckMember(db_, actor(), trust::Operation::kBanNode));
  return Expel(c.node, MemberStatus::kBanned, c.reason);
}

absl::Status Applier::On(const wire::UnbanNode& c) {
  GDF_RETURN_IF_ERROR(CheckMember(db_, actor(), trust::Operation::kUnbanNode));
  GDF_ASSIGN_OR_RETURN(const Member member, ReadMember(db_, c.node));
  if (member.status != MemberStatus::kBanned) {
    return absl::FailedPreconditionError(absl::StrCat("node ", member.profile.name, " is not banned, it is ",
                                                      ToAbsl(ToString(member.status))));
  }
  GDF_RETURN_IF_ERROR(db_.Run("UPDATE members SET status = ?, reason = '' WHERE id = ?",
                              static_cast<int64_t>(MemberStatus::kRemoved), ToBlob(c.node)));
  return AddEvent({}, c.node, wire::Severity::kInfo,
                  absl::StrCat("the ban of node ", member.profile.name, " was lifted; it may join with an invite"));
}

absl::Status Applier::On(const wire::RotateKey& c) {
  GDF_RETURN_IF_ERROR(CheckMember(db_, actor(), trust::Operation::kRotateKey));
  GDF_ASSIGN_OR_RETURN(const trust::KeyRotation rotation, trust::KeyRotation::Parse(c.record));
  GDF_ASSIGN_OR_RETURN(const std::string record, ReadGenesisRecord());
  if (rotation.network != trust::NetworkIdOf(record)) {
    return absl::PermissionDeniedError("the key rotation was signed for another network");
  }
  if (trust::NodeIdOf(rotation.old_key) != actor()) {
    return absl::PermissionDeniedError(absl::StrCat("the key rotation replaces the key of node ",
                                                    trust::NodeIdOf(rotation.old_key).Short(), ", not of ",
                                                    actor().Short()));
  }
  GDF_ASSIGN_OR_RETURN(const bool coordinator, IsCoordinator(db_, actor()));
  GDF_ASSIGN_OR_RETURN(const int64_t coordinators, Count("coordinators"));
  if (coordinator && coordinators > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("node ", actor().Short(), " is one of ", coordinators,
                     " coordinators: replace its key while it is none (gdfctl coordinator remove, then add)"));
  }
  const NodeId fresh = trust::NodeIdOf(rotation.new_key);
  GDF_ASSIGN_OR_RETURN(const int64_t members, Count("members WHERE id = ?", ToBlob(fresh)));
  GDF_ASSIGN_OR_RETURN(const int64_t rotated, Count("rotated WHERE old_id = ?", ToBlob(fresh)));
  if (members + rotated != 0) {
    return absl::AlreadyExistsError(absl::StrCat("key ", fresh.Short(), " is or was in use in this network"));
  }
  GDF_ASSIGN_OR_RETURN(const int64_t running,
                       Count("jobs j JOIN job_members m ON m.job = j.id AND m.epoch = j.epoch WHERE j.phase = 1 AND m.node = ?",
                             ToBlob(actor())));
  if (running != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("node ", actor().Short(), " is taking part in ", Counted(running, "job"),
                     ": replace its key when they have ended"));
  }
  for (const std::string_view update :
       {"UPDATE coordinators SET node = ? WHERE node = ?", "UPDATE invites SET created_by = ? WHERE created_by = ?",
        "UPDATE jobs SET owner = ? WHERE owner = ?", "UPDATE jobs SET lead = ? WHERE lead = ?",
        "UPDATE events SET node = ? WHERE node = ?", "UPDATE recruits SET node = ? WHERE node = ?", "UPDATE rotated SET new_id = ? WHERE new_id = ?"}) {
    GDF_RETURN_IF_ERROR(db_.Run(update, ToBlob(fresh), ToBlob(actor())));
  }
  GDF_RETURN_IF_ERROR(db_.Run("UPDATE members SET id = ?, public_key = ? WHERE id = ?", ToBlob(fresh),
                              ToBlob(rotation.new_key), ToBlob(actor())));
  GDF_RETURN_IF_ERROR(db_.Run("INSERT INTO rotated(old_id, new_id, at) VALUES(?, ?, ?)", ToBlob(actor()),
                              ToBlob(fresh), now()));
  return AddEvent({}, fresh, wire::Severity::kWarning,
                  absl::StrCat("node ", actor().Short(), " replaced its key and is now ", fresh.Short()));
}

absl::Status Applier::On(const wire::UpdateNode& c) {
  GDF_RETURN_IF_ERROR(CheckMember(db_, actor(), trust::Operation::kUpdateNode));
  GDF_ASSIGN_OR_RETURN(const int64_t taken,
                       Count("members WHERE name = ? AND status != 1 AND id != ?", c.node.name, ToBlob(actor())));
  if (taken != 0) return absl::AlreadyExistsError(absl::StrCat("another node is called ", c.node.name));
  result_.name = c.node.name;
  return db_.Run("UPDATE members SET name = ?, profile = ? WHERE id = ?", c.node.name,
                 ToBlob(wire::EncodeNodeProfile(c.node)), ToBlob(actor()));
}

// ---- coordinators

absl::Status Applier::BeginCoordination() {
  GDF_RETURN_IF_ERROR(
      db_.Run("UPDATE network SET coordinators_since = (SELECT COALESCE(MAX(log_index), 0) + 1 FROM log)"));
  return ResetBallot(db_);
}

absl::Status Applier::On(const wire::AddCoordinator& c) {
  GDF_RETURN_IF_ERROR(CheckMember(db_, actor(), trust::Operation::kSetCoordinators));
  GDF_ASSIGN_OR_RETURN(const Member member, ActiveMember(c.node));
  if (member.coordinator) {
    return absl::AlreadyExistsError(absl::StrCat("node ", member.profile.name, " is a coordinator already"));
  }
  GDF_ASSIGN_OR_RETURN(const int64_t coordinators, Count("coordinators"));
  if (coordinators >= static_cast<int64_t>(State::kMaxCoordinators)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("there are ", coordinators, " coordinators, and no more can be: remove one first"));
  }
  GDF_RETURN_IF_ERROR(db_.Run("INSERT INTO coordinators(node) VALUES(?)", ToBlob(c.node)));
  GDF_RETURN_IF_ERROR(BeginCoordination());
  return AddEvent({}, c.node, wire::Severity::kInfo,
                  absl::StrCat("node ", member.profile.name, " is a coordinator now, one of ", coordinators + 1));
}

absl::Status Applier::On(const wire::RemoveCoordinator& c) {
  GDF_RETURN_IF_ERROR(CheckMember(db_, actor(), trust::Operation::kSetCoordinators));
  GDF_ASSIGN_OR_RETURN(const Member member, ReadMember(db_, c.node));
  if (!member.coordinator) {
    return absl::FailedPreconditionError(absl::StrCat("node ", member.profile.name, " is no coordinator"));
  }
  GDF_ASSIGN_OR_RETURN(const int64_t coordinators, Count("coordinators"));
  if (coordinators == 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("node ", member.profile.name, " is the only coordinator: add another one first"));
  }
  GDF_RETURN_IF_ERROR(db_.Run("DELETE FROM coordinators WHERE node = ?", ToBlob(c.node)));
  GDF_RETURN_IF_ERROR(BeginCoordination());
  return AddEvent({}, c.node, wire::Severity::kInfo,
                  absl::StrCat("node ", member.profile.name, " is no coordinator any more; there are ", coordinators - 1));
}

absl::Status Applier::On(const wire::RecoverNetwork&) {
  GDF_RETURN_IF_ERROR(CheckCoordinator("recover the network"));
  GDF_ASSIGN_OR_RETURN(const Member member, ReadMember(db_, actor()));
  GDF_RETURN_IF_ERROR(db_.Run("DELETE FROM coordinators WHERE node <> ?", ToBlob(actor())));
  GDF_RETURN_IF_ERROR(BeginCoordination());
  return AddEvent({}, actor(), wire::Severity::kWarning,
                  absl::StrCat("node ", member.profile.name, " has recovered the network and is its only coordinator"));
}

// ---- shared parts

absl::Status Applier::AddMember(const NodeId& id, const trust::PublicKey& key, trust::RoleSet roles,
                                wire::NodeProfile profile) {
  const std::string wished = profile.name;
  for (int n = 2;; ++n) {
    GDF_ASSIGN_OR_RETURN(const int64_t taken,
                         Count("members WHERE name = ? AND status != 1 AND id != ?", profile.name, ToBlob(id)));
    if (taken == 0) break;
    const std::string suffix = absl::StrCat("-", n);
    profile.name = wished.substr(0, kMaxNameBytes - suffix.size()) + suffix;
  }
  result_.name = profile.name;
  return db_.Run(
      "INSERT INTO members(id, public_key, roles, status, reason, joined, name, profile) VALUES(?, ?, ?, 0, '', ?, ?, "
      "?) ON CONFLICT(id) DO UPDATE SET roles = excluded.roles, status = 0, reason = '', joined = excluded.joined, "
      "name = excluded.name, profile = excluded.profile",
      ToBlob(id), ToBlob(key), roles.bits(), now(), profile.name, ToBlob(wire::EncodeNodeProfile(profile)));
}

absl::StatusOr<Member> Applier::ActiveMember(const NodeId& id) {
  GDF_ASSIGN_OR_RETURN(Member member, ReadMember(db_, id));
  if (member.status == MemberStatus::kActive) return member;
  return absl::FailedPreconditionError(
      absl::StrCat("node ", member.profile.name, " is ", ToAbsl(ToString(member.status))));
}

absl::Status Applier::CheckNotLastAdmin(const Member& member) {
  if (!member.roles.Has(trust::Role::kAdmin)) return absl::OkStatus();
  GDF_ASSIGN_OR_RETURN(const int64_t admins, Count("members WHERE status = 0 AND (roles & 1) != 0"));
  if (admins > 1) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("node ", member.profile.name, " is the last admin: make another node admin first"));
}

absl::StatusOr<std::string> Applier::ReadGenesisRecord() {
  GDF_ASSIGN_OR_RETURN(store::Rows rows, db_.Query("SELECT record FROM network"));
  if (rows.Next()) return std::string(rows.Bytes(0));
  GDF_RETURN_IF_ERROR(rows.status());
  return absl::FailedPreconditionError("there is no network yet: create one, or join one");
}

absl::StatusOr<trust::Genesis> Applier::ReadGenesis() {
  GDF_ASSIGN_OR_RETURN(const std::string record, ReadGenesisRecord());
  return trust::Genesis::Parse(record);
}

absl::Status Applier::AddEvent(JobId job, const NodeId& node, wire::Severity severity, const std::string& text) {
  GDF_RETURN_IF_ERROR(db_.Run("INSERT INTO events(at, job, node, severity, text) VALUES(?, ?, ?, ?, ?)", now(),
                              job.value, ToBlob(node), static_cast<int64_t>(severity), text));
  return db_.Run("DELETE FROM events WHERE id <= (SELECT MAX(id) FROM events) - ?", State::kMaxEvents);
}

absl::Status ApplyCommand(store::Database& db, const wire::Command& command, wire::CommandResult* result) {
  Applier applier(db, command, *result);
  return std::visit([&applier](const auto& body) { return applier.On(body); }, command.body);
}

}  // namespace gdf::state
