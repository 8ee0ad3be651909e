#include "core/state/tables.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace gdf::state {
namespace {

constexpr int kVersion = 8;

// Long columns come last, so that a listing does not read over them.
constexpr std::string_view kTables = R"(
CREATE TABLE network(one INTEGER PRIMARY KEY CHECK(one = 1), record BLOB NOT NULL);
CREATE TABLE coordinators(node BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE members(
  seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, public_key BLOB NOT NULL, roles INTEGER NOT NULL,
  status INTEGER NOT NULL, reason TEXT NOT NULL, joined INTEGER NOT NULL, name TEXT NOT NULL, profile BLOB NOT NULL);
-- new_id: the node's id now, however many rotations ago the old one was
CREATE TABLE rotated(old_id BLOB PRIMARY KEY, new_id BLOB NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE invites(
  seq INTEGER PRIMARY KEY, id BLOB NOT NULL UNIQUE, secret_hash BLOB NOT NULL, roles INTEGER NOT NULL,
  created INTEGER NOT NULL, expires INTEGER NOT NULL, allowed INTEGER NOT NULL, uses INTEGER NOT NULL,
  revoked INTEGER NOT NULL, created_by BLOB NOT NULL);
CREATE TABLE jobs(
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, owner BLOB NOT NULL, token TEXT NOT NULL, planned INTEGER NOT NULL,
  phase INTEGER NOT NULL, verdict INTEGER NOT NULL, reason TEXT NOT NULL, epoch INTEGER NOT NULL,
  epoch_reason TEXT NOT NULL, lead BLOB NOT NULL, rounds_done INTEGER NOT NULL, reported_epoch INTEGER NOT NULL,
  theta BLOB NOT NULL, metrics BLOB NOT NULL, message TEXT NOT NULL, submitted INTEGER NOT NULL,
  started INTEGER NOT NULL, finished INTEGER NOT NULL, inputs BLOB NOT NULL, spec TEXT NOT NULL,
  UNIQUE(owner, token));
-- under the ids of that time, with whose keys they signed
CREATE TABLE job_members(
  job INTEGER NOT NULL, epoch INTEGER NOT NULL, position INTEGER NOT NULL, node BLOB NOT NULL,
  PRIMARY KEY(job, epoch, position)) WITHOUT ROWID;
CREATE TABLE rounds(
  job INTEGER NOT NULL, round INTEGER NOT NULL, epoch INTEGER NOT NULL, at INTEGER NOT NULL, theta BLOB NOT NULL,
  metrics BLOB NOT NULL, PRIMARY KEY(job, round)) WITHOUT ROWID;
CREATE TABLE events(
  id INTEGER PRIMARY KEY, at INTEGER NOT NULL, job INTEGER NOT NULL, node BLOB NOT NULL, severity INTEGER NOT NULL,
  text TEXT NOT NULL);
CREATE INDEX events_of_job ON events(job, id);
CREATE TABLE requests(
  log_index INTEGER PRIMARY KEY, actor BLOB NOT NULL, request BLOB NOT NULL, result BLOB NOT NULL,
  UNIQUE(actor, request));
CREATE TABLE log(log_index INTEGER PRIMARY KEY, at INTEGER NOT NULL, chain BLOB NOT NULL, command BLOB NOT NULL);
)";

// Of this copy alone: the digest of all other rows, and the node that keeps it; NULL until they are known.
constexpr std::string_view kLocalTable = R"(
CREATE TABLE local(one INTEGER PRIMARY KEY CHECK(one = 1), digest BLOB, keeper BLOB);
INSERT INTO local(one) VALUES(1);
)";

// Nodes that are no members of a running job, under the ids that they have now. `excluded`: 0 for one that is called to it.
constexpr std::string_view kRecruitsTable = R"(
CREATE TABLE recruits(
  job INTEGER NOT NULL, node BLOB NOT NULL, excluded INTEGER NOT NULL, PRIMARY KEY(job, node)) WITHOUT ROWID;
)";

// The last rollback of each job that had one.
constexpr std::string_view kRollbacksTable = R"(
CREATE TABLE rollbacks(job INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, round INTEGER NOT NULL, theta BLOB NOT NULL);
)";

// The entry that chose the coordinators; and, of this copy alone, what its node has promised to the others, and the entries
// that it has accepted and not applied yet (state/ballot.h).
constexpr std::string_view kCoordinatorTables = R"(
ALTER TABLE network ADD COLUMN coordinators_since INTEGER NOT NULL DEFAULT 1;
UPDATE local SET digest = NULL;
CREATE TABLE local_ballot(
  one INTEGER PRIMARY KEY CHECK(one = 1), term INTEGER NOT NULL, vote BLOB, accepted INTEGER NOT NULL,
  abstains INTEGER NOT NULL);
INSERT INTO local_ballot VALUES(1, 0, NULL, 0, 0);
CREATE TABLE local_tail(log_index INTEGER PRIMARY KEY, command BLOB NOT NULL);
)";

// Why a node is excluded, and why a job was sent back, and how often by its leads.
constexpr std::string_view kReasons = R"(
ALTER TABLE recruits ADD COLUMN reason TEXT NOT NULL DEFAULT '';
ALTER TABLE rollbacks ADD COLUMN reason TEXT NOT NULL DEFAULT '';
ALTER TABLE rollbacks ADD COLUMN by_lead INTEGER NOT NULL DEFAULT 0;
UPDATE local SET digest = NULL;
)";

// Version 1 kept the members of a job's newest epoch only.
constexpr std::string_view kFromVersion1 = R"(
ALTER TABLE job_members RENAME TO newest_members;
CREATE TABLE job_members(
  job INTEGER NOT NULL, epoch INTEGER NOT NULL, position INTEGER NOT NULL, node BLOB NOT NULL,
  PRIMARY KEY(job, epoch, position)) WITHOUT ROWID;
INSERT INTO job_members SELECT m.job, j.epoch, m.position, m.node FROM newest_members m JOIN jobs j ON j.id = m.job;
DROP TABLE newest_members;
)";

// Version 2 left nodes of jobs and events under ids that they have no more.
constexpr std::string_view kFromVersion2 = R"(
WITH RECURSIVE chain(old_id, id) AS (
  SELECT old_id, new_id FROM rotated UNION SELECT c.old_id, r.new_id FROM chain c JOIN rotated r ON r.old_id = c.id)
UPDATE rotated SET new_id = (
  SELECT id FROM chain c WHERE c.old_id = rotated.old_id AND c.id IN (SELECT id FROM members));
UPDATE jobs SET lead = (SELECT new_id FROM rotated WHERE old_id = lead) WHERE lead IN (SELECT old_id FROM rotated);
UPDATE events SET node = (SELECT new_id FROM rotated WHERE old_id = node) WHERE node IN (SELECT old_id FROM rotated);
)";

// Version 3 had nothing that says what its tables must hold, or whose they are; version 4 kept a job's members as they were; version 5 sent
// no job back; version 6 had one coordinator; version 7 had reasons in events only.
constexpr std::string_view kMigrations[] = {kFromVersion1,   kFromVersion2,      kLocalTable, kRecruitsTable,
                                            kRollbacksTable, kCoordinatorTables, kReasons};

// The id that a node of `job_members m` has now.
constexpr std::string_view kMemberNow = "COALESCE((SELECT new_id FROM rotated WHERE old_id = m.node), m.node)";

constexpr std::string_view kJobColumns =
    "SELECT id, name, owner, token, planned, phase, verdict, reason, epoch, epoch_reason, lead, rounds_done, theta, "
    "metrics, message, submitted, started, finished";

absl::StatusOr<NodeId> NodeColumn(const store::Rows& rows, int column) {
  GDF_ASSIGN_OR_RETURN(const Digest digest, DigestColumn(rows, column));
  return NodeId(digest);
}

// All rows, each of one node.
absl::StatusOr<std::vector<NodeId>> ReadNodes(store::Rows& rows) {
  std::vector<NodeId> nodes;
  while (rows.Next()) {
    GDF_ASSIGN_OR_RETURN(const NodeId node, NodeColumn(rows, 0));
    nodes.push_back(node);
  }
  GDF_RETURN_IF_ERROR(rows.status());
  return nodes;
}

// Whatever id of a node it is.
absl::StatusOr<NodeId> CurrentId(store::Database& db, const NodeId& id) {
  GDF_ASSIGN_OR_RETURN(store::Rows rows, db.Query("SELECT new_id FROM rotated WHERE old_id = ?", ToBlob(id)));
  if (rows.Next()) return NodeColumn(rows, 0);
  GDF_RETURN_IF_ERROR(rows.status());
  return id;
}

absl::StatusOr<Job> JobRow(const store::Rows& rows) {
  Job job;
  job.id.value = rows.Unsigned(0);
  job.name = rows.Text(1);
  GDF_ASSIGN_OR_RETURN(job.owner, NodeColumn(rows, 2));
  job.submit_token = rows.Text(3);
  job.planned_rounds = rows.Unsigned(4);
  job.phase = static_cast<JobPhase>(rows.Int(5));
  job.verdict = static_cast<wire::Verdict>(rows.Int(6));
  job.reason = rows.Text(7);
  job.epoch.value = rows.Unsigned(8);
  job.epoch_reason = rows.Text(9);
  GDF_ASSIGN_OR_RETURN(job.lead, NodeColumn(rows, 10));
  job.rounds_done = rows.Unsigned(11);
  GDF_ASSIGN_OR_RETURN(job.theta, DigestColumn(rows, 12));
  GDF_ASSIGN_OR_RETURN(job.metrics, wire::DecodeRoundMetrics(rows.Bytes(13)));
  job.message = rows.Text(14);
  job.submitted_unix_ms = rows.Int(15);
  job.started_unix_ms = rows.Int(16);
  job.finished_unix_ms = rows.Int(17);
  return job;
}

// Of all jobs, or of `only`.
absl::Status ReadRecruits(store::Database& db, std::optional<JobId> only, const std::function<Job*(JobId)>& find) {
  GDF_ASSIGN_OR_RETURN(store::Rows rows,
                       only ? db.Query("SELECT node, excluded, job, reason FROM recruits WHERE job = ? ORDER BY node", only->value)
                            : db.Query("SELECT node, excluded, job, reason FROM recruits ORDER BY job, node"));
  while (rows.Next()) {
    GDF_ASSIGN_OR_RETURN(const NodeId node, NodeColumn(rows, 0));
    Job* job = find(JobId{rows.Unsigned(2)});
    if (job == nullptr) continue;
    if (rows.Int(1) == 0) {
      job->recruits.push_back(node);
    } else {
      job->excluded.push_back({node, std::string(rows.Text(3))});
    }
  }
  return rows.status();
}

absl::StatusOr<std::optional<Rollback>> ReadRollback(store::Database& db, JobId job) {
  GDF_ASSIGN_OR_RETURN(store::Rows rows, db.Query("SELECT epoch, round, theta, reason, by_lead FROM rollbacks WHERE job = ?", job.value));
  std::optional<Rollback> rollback;
  if (rows.Next()) {
    rollback = Rollback{Epoch{rows.Unsigned(0)}, RoundId{rows.Unsigned(1)}, {}, std::string(rows.Text(3)), rows.Unsigned(4)};
    GDF_ASSIGN_OR_RETURN(rollback->theta, DigestColumn(rows, 2));
  }
  GDF_RETURN_IF_ERROR(rows.status());
  return rollback;
}

}  // namespace

absl::Status PrepareTables(store::Database& db) {
  int64_t version = 0;
  {
    GDF_ASSIGN_OR_RETURN(store::Rows rows, db.Query("PRAGMA user_version"));
    if (rows.Next()) version = rows.Int(0);
    GDF_RETURN_IF_ERROR(rows.status());
  }
  if (version == kVersion) return absl::OkStatus();
  if (version > kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the state database is of version ", version, ", this program knows version ", kVersion,
                     ". Install the release that wrote it, or a newer one"));
  }
  GDF_ASSIGN_OR_RETURN(store::Transaction transaction, store::Transaction::Begin(db));
  if (version == 0) {
    GDF_RETURN_IF_ERROR(db.Execute(kTables));
    GDF_RETURN_IF_ERROR(db.Execute(kLocalTable));
    GDF_RETURN_IF_ERROR(db.Execute(kRecruitsTable));
    GDF_RETURN_IF_ERROR(db.Execute(kRollbacksTable));
    GDF_RETURN_IF_ERROR(db.Execute(kCoordinatorTables));
    GDF_RETURN_IF_ERROR(db.Execute(kReasons));
  } else {
    for (; version < kVersion; ++version) GDF_RETURN_IF_ERROR(db.Execute(kMigrations[version - 1]));
  }
  GDF_RETURN_IF_ERROR(db.Execute(absl::StrCat("PRAGMA user_version=", kVersion)));
  return transaction.Commit();
}

absl::StatusOr<Digest> DigestColumn(const store::Rows& rows, int column) {
  absl::StatusOr<Digest> digest = Digest::FromBytes(rows.Bytes(column));
  if (!digest.ok()) return absl::DataLossError(absl::StrCat("the state database: ", digest.status().message()));
  return digest;
}

absl::StatusOr<std::vector<Member>> ReadMembers(store::Database& db, std::string_view where,
                                                const std::vector<store::Value>& values) {
  GDF_ASSIGN_OR_RETURN(
      store::Rows rows,
      db.QueryValues(absl::StrCat("SELECT m.id, m.public_key, m.roles, m.status, m.reason, m.joined, m.profile, "
                                  "c.node IS NOT NULL FROM members m LEFT JOIN coordinators c ON c.node = m.id ",
                                  ToAbsl(where)),
                     values));
  std::vector<Member> members;
  while (rows.Next()) {
    Member& member = members.emplace_back();
    GDF_ASSIGN_OR_RETURN(member.id, NodeColumn(rows, 0));
    GDF_ASSIGN_OR_RETURN(member.public_key, trust::PublicKeyFromBytes(rows.Bytes(1)));
    GDF_ASSIGN_OR_RETURN(member.roles, trust::RoleSet::FromBits(static_cast<uint32_t>(rows.Int(2))));
    member.status = static_cast<MemberStatus>(rows.Int(3));
    member.reason = rows.Text(4);
    member.joined_unix_ms = rows.Int(5);
    GDF_ASSIGN_OR_RETURN(member.profile, wire::DecodeNodeProfile(rows.Bytes(6)));
    member.coordinator = rows.Int(7) != 0;
  }
  GDF_RETURN_IF_ERROR(rows.status());
  return members;
}

absl::StatusOr<Member> ReadMember(store::Database& db, const NodeId& id) {
  GDF_ASSIGN_OR_RETURN(std::vector<Member> found, ReadMembers(db, "WHERE m.id = ?", {ToBlob(id)}));
  if (found.empty()) return absl::NotFoundError(absl::StrCat("node ", id.Short(), " is not a member of this network"));
  return std::move(found[0]);
}

absl::StatusOr<std::vector<Job>> ReadJobs(store::Database& db) {
  std::map<JobId, std::vector<NodeId>> members;
  {
    GDF_ASSIGN_OR_RETURN(store::Rows rows,
                         db.Query(absl::StrCat("SELECT m.job, ", ToAbsl(kMemberNow),
                                               " FROM jobs j JOIN job_members m ON m.job = j.id AND m.epoch = j.epoch "
                                               "ORDER BY m.job, m.position")));
    while (rows.Next()) {
      GDF_ASSIGN_OR_RETURN(const NodeId node, NodeColumn(rows, 1));
      members[JobId{rows.Unsigned(0)}].push_back(node);
    }
    GDF_RETURN_IF_ERROR(rows.status());
  }
  GDF_ASSIGN_OR_RETURN(store::Rows rows, db.Query(absl::StrCat(ToAbsl(kJobColumns), " FROM jobs ORDER BY id DESC")));
  std::vector<Job> jobs;
  while (rows.Next()) {
    GDF_ASSIGN_OR_RETURN(Job job, JobRow(rows));
    if (const auto found = members.find(job.id); found != members.end()) job.members = std::move(found->second);
    jobs.push_back(std::move(job));
  }
  GDF_RETURN_IF_ERROR(rows.status());
  GDF_RETURN_IF_ERROR(ReadRecruits(db, std::nullopt, [&jobs](JobId id) {
    const auto found = std::ranges::lower_bound(jobs, id, std::ranges::greater(), &Job::id);
    return found != jobs.end() && found->id == id ? &*found : nullptr;
  }));
  return jobs;
}

absl::StatusOr<Job> ReadJob(store::Database& db, JobId id) {
  GDF_ASSIGN_OR_RETURN(store::Rows rows,
                       db.Query(absl::StrCat(ToAbsl(kJobColumns), ", inputs, spec FROM jobs WHERE id = ?"), id.value));
  if (!rows.Next()) {
    GDF_RETURN_IF_ERROR(rows.status());
    return absl::NotFoundError(absl::StrCat("there is no job ", ToString(id), " in this network"));
  }
  GDF_ASSIGN_OR_RETURN(Job job, JobRow(rows));
  GDF_ASSIGN_OR_RETURN(job.inputs, wire::DecodeJobInputs(rows.Bytes(18)));
  job.spec_yaml = rows.Text(19);
  for (wire::JobInput& input : job.inputs) {
    GDF_ASSIGN_OR_RETURN(input.holder, CurrentId(db, input.holder));
  }
  GDF_ASSIGN_OR_RETURN(store::Rows members,
                       db.Query(absl::StrCat("SELECT ", ToAbsl(kMemberNow),
                                             " FROM job_members m WHERE m.job = ? AND m.epoch = ? ORDER BY m.position"),
                                id.value, job.epoch.value));
  GDF_ASSIGN_OR_RETURN(job.members, ReadNodes(members));
  GDF_RETURN_IF_ERROR(ReadRecruits(db, id, [&job](JobId) { return &job; }));
  GDF_ASSIGN_OR_RETURN(job.rollback, ReadRollback(db, id));
  return job;
}

absl::StatusOr<std::vector<NodeId>> ReadEpochMembers(store::Database& db, JobId job, Epoch epoch) {
  GDF_ASSIGN_OR_RETURN(store::Rows rows,
                       db.Query("SELECT node FROM job_members WHERE job = ? AND epoch = ? ORDER BY position",
                                job.value, epoch.value));
  return ReadNodes(rows);
}

absl::StatusOr<EpochsPast> ReadEpochsPast(store::Database& db, JobId job) {
  EpochsPast past;
  GDF_ASSIGN_OR_RETURN(store::Rows most,
                       db.Query("SELECT MAX(position) + 1 FROM job_members WHERE job = ?", job.value));
  if (most.Next()) past.most_members = most.Unsigned(0);
  GDF_RETURN_IF_ERROR(most.status());
  GDF_ASSIGN_OR_RETURN(store::Rows rows, db.Query(absl::StrCat("SELECT DISTINCT ", ToAbsl(kMemberNow),
                                                               " AS now FROM job_members m WHERE m.job = ? ORDER BY now"),
                                                  job.value));
  GDF_ASSIGN_OR_RETURN(past.members, ReadNodes(rows));
  return past;
}

absl::Status CheckMember(store::Database& db, const NodeId& id, trust::Operation operation) {
  absl::StatusOr<Member> member = ReadMember(db, id);
  if (absl::IsNotFound(member.status())) {
    GDF_ASSIGN_OR_RETURN(store::Rows rows, db.Query("SELECT 1 FROM rotated WHERE old_id = ?", ToBlob(id)));
    if (rows.Next()) {
      return absl::PermissionDeniedError(
          absl::StrCat("node ", id.Short(), " has replaced its key; it is known under its new id"));
    }
    GDF_RETURN_IF_ERROR(rows.status());
    return absl::PermissionDeniedError(
        absl::StrCat("node ", id.Short(), " is not a member of this network; it can join with an invite"));
  }
  GDF_RETURN_IF_ERROR(member.status());
  if (member->status != MemberStatus::kActive) {
    return absl::PermissionDeniedError(absl::StrCat("node ", member->profile.name, " (", id.Short(), ") is ",
                                                    ToAbsl(ToString(member->status)),
                                                    member->reason.empty() ? "" : ": ", member->reason));
  }
  return trust::CheckPermission(member->roles, operation);
}

absl::StatusOr<bool> IsCoordinator(store::Database& db, const NodeId& id) {
  GDF_ASSIGN_OR_RETURN(store::Rows rows, db.Query("SELECT 1 FROM coordinators WHERE node = ?", ToBlob(id)));
  const bool found = rows.Next();
  GDF_RETURN_IF_ERROR(rows.status());
  return found;
}

std::string_view ToString(MemberStatus status) {
  switch (status) {
    case MemberStatus::kActive: return "active";
    case MemberStatus::kRemoved: return "removed";
    case MemberStatus::kBanned: return "banned";
  }
  return "unknown";
}

std::string_view ToString(JobPhase phase) {
  switch (phase) {
    case JobPhase::kPending: return "pending";
    case JobPhase::kRunning: return "running";
    case JobPhase::kFinished: return "finished";
  }
  return "unknown";
}

}  // namespace gdf::state
