#include "core/state/state.h"

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/state/apply.h"
#include "core/state/tables.h"

namespace gdf::state {
namespace {

constexpr size_t kMinIdPrefix = 4;

// Of a file whose rows Open digests: 40,000 entries, less than 200 ms.
constexpr uint64_t kMaxDigestedBytes = uint64_t{12} << 20;

// Undoes a refused command inside the transaction of its log entry.
absl::Status RunOrUndo(store::Database& db, store::RowDigest& rows, const wire::Command& command,
                       wire::CommandResult* result) {
  const Digest before = rows.value();
  GDF_RETURN_IF_ERROR(db.Run("SAVEPOINT command"));
  result->status = ApplyCommand(db, command, result);
  GDF_RETURN_IF_ERROR(db.error());
  if (!result->status.ok()) {
    *result = {result->status, {}, {}};
    GDF_RETURN_IF_ERROR(db.Run("ROLLBACK TO command"));
    rows.Set(before);
  }
  return db.Run("RELEASE command");
}

// Whether a command may change what is known of members; one that is not known here may.
bool ConcernsMembers(const wire::CommandBody& body) {
  return std::visit(
      []<typename Body>(const Body&) {
        constexpr bool of_invites = std::is_same_v<Body, wire::CreateInvite> || std::is_same_v<Body, wire::RevokeInvite>;
        constexpr bool of_jobs = std::is_same_v<Body, wire::SubmitJob> || std::is_same_v<Body, wire::OpenEpoch> ||
                                 std::is_same_v<Body, wire::ReportJob> || std::is_same_v<Body, wire::FinishJob> ||
                                 std::is_same_v<Body, wire::CancelJob> || std::is_same_v<Body, wire::JobEvent> ||
                                 std::is_same_v<Body, wire::Recruit> || std::is_same_v<Body, wire::RollBackJob>;
        return !of_invites && !of_jobs;
      },
      body);
}

absl::Status BrokenChain(uint64_t index) {
  return absl::DataLossError(absl::StrCat("log entry ", index, " is damaged: its bytes do not give its chain digest"));
}

}  // namespace

Digest NextLogDigest(const Digest& previous, std::string_view command) {
  return Sha256().Update(previous.span()).Update(command).Finish();
}

absl::StatusOr<std::unique_ptr<State>> State::Open(const std::string& path) {
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<store::Database> db, store::Database::Open(path));
  GDF_ASSIGN_OR_RETURN(const uint64_t bytes, db->SizeBytes());
  if (bytes <= kMaxCheckedBytes) GDF_RETURN_IF_ERROR(db->QuickCheck());
  absl::StatusOr<std::unique_ptr<State>> state = Create(std::move(db));
  GDF_RETURN_IF_ERROR(Annotate(state.status(), path));
  GDF_RETURN_IF_ERROR(Annotate((*state)->CheckNewestEntries(kMaxCheckedLogBytes), path));
  if (bytes <= kMaxDigestedBytes) GDF_RETURN_IF_ERROR(Annotate((*state)->CheckRows(), path));
  return state;
}

absl::StatusOr<std::unique_ptr<State>> State::OpenInMemory() {
  GDF_ASSIGN_OR_RETURN(std::unique_ptr<store::Database> db, store::Database::OpenInMemory());
  return Create(std::move(db));
}

absl::StatusOr<std::unique_ptr<State>> State::Create(std::unique_ptr<store::Database> db) {
  GDF_RETURN_IF_ERROR(PrepareTables(*db));
  std::unique_ptr<State> state(new State(std::move(db)));
  GDF_RETURN_IF_ERROR(state->LoadRowDigest());
  GDF_ASSIGN_OR_RETURN(store::Rows rows,
                       state->db_->Query("SELECT log_index, at, chain FROM log ORDER BY log_index DESC LIMIT 1"));
  if (rows.Next()) {
    state->tip_.index = rows.Unsigned(0);
    state->tip_.time_unix_ms = rows.Int(1);
    GDF_ASSIGN_OR_RETURN(state->tip_.chain, DigestColumn(rows, 2));
  }
  GDF_RETURN_IF_ERROR(rows.status());
  state->members_since_ = state->tip_.index;
  return state;
}

absl::Status State::LoadRowDigest() {
  bool known = false;
  {
    GDF_ASSIGN_OR_RETURN(store::Rows rows, db_->Query("SELECT digest FROM local"));
    if (!rows.Next()) {
      GDF_RETURN_IF_ERROR(rows.status());
      return absl::DataLossError("the state database: the digest of its rows is missing");
    }
    known = !rows.Null(0);
    if (known) {
      GDF_ASSIGN_OR_RETURN(const Digest digest, DigestColumn(rows, 0));
      rows_->Set(digest);
    }
  }
  if (known) return absl::OkStatus();
  GDF_ASSIGN_OR_RETURN(const Digest digest, rows_->Compute());
  rows_->Set(digest);
  return SaveRowDigest();
}

absl::Status State::SaveRowDigest() { return db_->Run("UPDATE local SET digest = ?", rows_->value()); }

absl::Status State::CheckRows() {
  GDF_ASSIGN_OR_RETURN(const Digest digest, rows_->Compute());
  if (digest == rows_->value()) return absl::OkStatus();
  return absl::DataLossError("its tables do not hold what was applied: the file was changed or is damaged");
}

absl::StatusOr<std::optional<NodeId>> State::keeper() {
  GDF_ASSIGN_OR_RETURN(store::Rows rows, db_->Query("SELECT keeper FROM local WHERE keeper IS NOT NULL"));
  std::optional<NodeId> keeper;
  if (rows.Next()) {
    GDF_ASSIGN_OR_RETURN(const Digest digest, DigestColumn(rows, 0));
    keeper.emplace(digest);
  }
  GDF_RETURN_IF_ERROR(rows.status());
  return keeper;
}

absl::Status State::SetKeeper(const NodeId& node) {
  GDF_RETURN_IF_ERROR(db_->Run("UPDATE local_ballot SET abstains = 1 WHERE EXISTS (SELECT 1 FROM local WHERE keeper <> ?)",
                               ToBlob(node)));
  return db_->Run("UPDATE local SET keeper = ?", ToBlob(node));
}

absl::Status State::CheckNewestEntries(uint64_t max_bytes) {
  GDF_ASSIGN_OR_RETURN(store::Rows rows,
                       db_->Query("SELECT log_index, chain, command FROM log ORDER BY log_index DESC"));
  uint64_t bytes = 0, index = tip_.index;
  Digest chain;         // of entry `index` + 1
  std::string command;  // its bytes
  for (bool first = true; rows.Next(); first = false, --index) {
    if (rows.Unsigned(0) != index) break;
    GDF_ASSIGN_OR_RETURN(const Digest previous, DigestColumn(rows, 1));
    if (!first && NextLogDigest(previous, command) != chain) return BrokenChain(index + 1);
    chain = previous;
    command = rows.Bytes(2);
    bytes += command.size();
    if (bytes > max_bytes) return absl::OkStatus();
  }
  GDF_RETURN_IF_ERROR(rows.status());
  if (index != 0) {
    return absl::DataLossError(absl::StrCat("log entry ", index, " is missing; the last is ", tip_.index));
  }
  if (tip_.index > 0 && NextLogDigest(Digest{}, command) != chain) return BrokenChain(1);
  return absl::OkStatus();
}

absl::StatusOr<wire::CommandResult> State::Apply(uint64_t index, std::string_view command_bytes) {
  if (index <= tip_.index) {
    return absl::AlreadyExistsError(
        absl::StrCat("log entry ", index, " is applied already; the last is ", tip_.index));
  }
  if (index != tip_.index + 1) {
    return absl::OutOfRangeError(
        absl::StrCat("log entry ", index, " came, entry ", tip_.index + 1, " is the next to apply"));
  }
  absl::StatusOr<wire::Command> command = wire::DecodeCommand(command_bytes);
  GDF_RETURN_IF_ERROR(Annotate(command.status(), absl::StrCat("log entry ", index)));
  return Record(*command, command_bytes, Refusals::kRecorded);
}

absl::StatusOr<wire::CommandResult> State::Append(const wire::Command& command) {
  return Record(command, wire::EncodeCommand(command), Refusals::kDropped);
}

absl::StatusOr<State::Outcome> State::Advance(const wire::Command& command, std::string_view command_bytes,
                                               Refusals refusals, Tip& tip) {
  const uint64_t index = tip.index + 1;
  wire::CommandResult result;
  GDF_ASSIGN_OR_RETURN(std::optional<wire::CommandResult> first, ResultOf(command.actor, command.request));
  if (first) {
    result = *std::move(first);
    if (refusals == Refusals::kDropped) return Outcome{std::move(result), false};
  } else {
    GDF_RETURN_IF_ERROR(RunOrUndo(*db_, *rows_, command, &result));
    // The first entry founds the network; a log that starts otherwise is none.
    if (index == 1) GDF_RETURN_IF_ERROR(result.status);
    if (!result.status.ok() && refusals == Refusals::kDropped) return Outcome{std::move(result), false};
    GDF_RETURN_IF_ERROR(db_->Run("INSERT INTO requests(log_index, actor, request, result) VALUES(?, ?, ?, ?)", index,
                                 ToBlob(command.actor), ToBlob(command.request),
                                 ToBlob(wire::EncodeCommandResult(result))));
  }
  const Tip next{index, std::max(tip.time_unix_ms, command.at_unix_ms), NextLogDigest(tip.chain, command_bytes)};
  GDF_RETURN_IF_ERROR(db_->Run("DELETE FROM requests WHERE log_index <= ?",
                               static_cast<int64_t>(index) - static_cast<int64_t>(kMaxRequests)));
  GDF_RETURN_IF_ERROR(db_->Run("INSERT INTO log(log_index, at, chain, command) VALUES(?, ?, ?, ?)", index,
                               next.time_unix_ms, next.chain, ToBlob(command_bytes)));
  GDF_RETURN_IF_ERROR(db_->Run("DELETE FROM local_tail WHERE log_index = ?", index));
  GDF_RETURN_IF_ERROR(SaveRowDigest());
  tip = next;
  return Outcome{std::move(result), true};
}

absl::StatusOr<wire::CommandResult> State::Record(const wire::Command& command, std::string_view command_bytes,
                                                  Refusals refusals) {
  db_->ClearError();
  Tip tip = tip_;
  absl::Cleanup undo = [this, rows = rows_->value()] { rows_->Set(rows); };
  GDF_ASSIGN_OR_RETURN(store::Transaction transaction, store::Transaction::Begin(*db_));
  GDF_ASSIGN_OR_RETURN(Outcome outcome, Advance(command, command_bytes, refusals, tip));
  if (!outcome.entry) return std::move(outcome.result);
  GDF_RETURN_IF_ERROR(Commit(transaction));
  std::move(undo).Cancel();
  tip_ = tip;
  if (ConcernsMembers(command.body)) members_since_ = tip.index;
  const auto watchers = watchers_;  // one may remove itself or others
  for (const auto& [id, watcher] : watchers) {
    if (watchers_.contains(id)) (*watcher)(tip.index);
  }
  return std::move(outcome.result);
}

absl::StatusOr<std::vector<State::Outcome>> State::Try(const std::vector<wire::Command>& commands) {
  db_->ClearError();
  Tip tip = tip_;
  absl::Cleanup undo = [this, rows = rows_->value()] { rows_->Set(rows); };
  GDF_ASSIGN_OR_RETURN(store::Transaction transaction, store::Transaction::Begin(*db_));
  std::vector<Outcome> outcomes;
  for (const wire::Command& command : commands) {
    GDF_ASSIGN_OR_RETURN(Outcome outcome, Advance(command, wire::EncodeCommand(command), Refusals::kDropped, tip));
    outcomes.push_back(std::move(outcome));
  }
  return outcomes;
}

uint64_t State::coordinators_since() {
  absl::StatusOr<store::Rows> rows = db_->Query("SELECT coordinators_since FROM network");
  return rows.ok() && rows->Next() ? rows->Unsigned(0) : 0;
}

absl::StatusOr<Ballot> State::ballot() { return ReadBallot(*db_); }

absl::Status State::SaveVote(uint64_t term, const std::optional<NodeId>& vote) {
  GDF_ASSIGN_OR_RETURN(store::Transaction transaction, store::Transaction::Begin(*db_));
  GDF_RETURN_IF_ERROR(WriteVote(*db_, term, vote));
  return Commit(transaction);
}

absl::Status State::SaveTail(uint64_t term, const std::vector<std::string>& tail) {
  GDF_ASSIGN_OR_RETURN(store::Transaction transaction, store::Transaction::Begin(*db_));
  GDF_RETURN_IF_ERROR(WriteTail(*db_, term, tip_.index, tail));
  return Commit(transaction);
}

absl::Status State::Abstain() { return db_->Run("UPDATE local_ballot SET abstains = 1"); }

absl::Status State::Commit(store::Transaction& transaction) {
  if (before_commit_) GDF_RETURN_IF_ERROR(before_commit_());
  return transaction.Commit();
}

absl::StatusOr<std::optional<wire::CommandResult>> State::ResultOf(const NodeId& actor,
                                                                   const wire::RequestId& request) {
  GDF_ASSIGN_OR_RETURN(store::Rows rows, db_->Query("SELECT result FROM requests WHERE actor = ? AND request = ?",
                                                    ToBlob(actor), ToBlob(request)));
  std::optional<wire::CommandResult> result;
  if (rows.Next()) {
    GDF_ASSIGN_OR_RETURN(result, wire::DecodeCommandResult(rows.Bytes(0)));
  }
  GDF_RETURN_IF_ERROR(rows.status());
  return result;
}

absl::StatusOr<Network> State::network() {
  Network network;
  {
    GDF_ASSIGN_OR_RETURN(store::Rows rows, db_->Query("SELECT record, coordinators_since FROM network"));
    if (!rows.Next()) {
      GDF_RETURN_IF_ERROR(rows.status());
      return absl::NotFoundError("this node is in no network: create one with gdfctl network create, or join one");
    }
    network.genesis_record = rows.Bytes(0);
    network.coordinators_since = rows.Unsigned(1);
  }
  GDF_ASSIGN_OR_RETURN(network.genesis, trust::Genesis::Parse(network.genesis_record));
  network.id = trust::NetworkIdOf(network.genesis_record);
  GDF_ASSIGN_OR_RETURN(store::Rows rows, db_->Query("SELECT node FROM coordinators ORDER BY node"));
  while (rows.Next()) {
    GDF_ASSIGN_OR_RETURN(const Digest digest, DigestColumn(rows, 0));
    network.coordinators.emplace_back(digest);
  }
  GDF_RETURN_IF_ERROR(rows.status());
  return network;
}

absl::StatusOr<std::vector<Member>> State::members() { return ReadMembers(*db_, "ORDER BY m.seq"); }

absl::StatusOr<Member> State::member(const NodeId& id) { return ReadMember(*db_, id); }

bool State::IsActive(const NodeId& id) {
  const absl::StatusOr<Member> known = member(id);
  return known.ok() && known->status == MemberStatus::kActive;
}

// A name can be chosen so that it looks like the start of another node's id: then neither is meant.
absl::StatusOr<Member> State::FindMember(std::string_view name_or_id) {
  GDF_ASSIGN_OR_RETURN(std::vector<Member> all, members());
  std::vector<Member> found;
  for (Member& member : all) {
    if (member.status == MemberStatus::kRemoved) continue;
    const std::string id = member.id.ToString();
    if (id == name_or_id) return std::move(member);
    const bool by_id = name_or_id.size() >= kMinIdPrefix && id.compare(0, name_or_id.size(), name_or_id) == 0;
    if (by_id || member.profile.name == name_or_id) found.push_back(std::move(member));
  }
  if (found.size() == 1) return std::move(found[0]);
  if (found.empty()) {
    return absl::NotFoundError(
        absl::StrCat("no node of this network is called ", ToAbsl(name_or_id), " or has an id that starts so"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      found.size(), " nodes are called ", ToAbsl(name_or_id), " or have ids that start so: ", found[0].id.ToString(), ", ",
      found[1].id.ToString(), "; give a whole id"));
}

absl::Status State::CheckMember(const NodeId& id, trust::Operation operation) {
  return state::CheckMember(*db_, id, operation);
}

absl::StatusOr<std::vector<InviteRecord>> State::invites() {
  GDF_ASSIGN_OR_RETURN(
      store::Rows rows,
      db_->Query("SELECT id, roles, created, expires, allowed, uses, revoked, created_by FROM invites ORDER BY seq"));
  std::vector<InviteRecord> invites;
  while (rows.Next()) {
    InviteRecord& invite = invites.emplace_back();
    const std::string_view id = rows.Bytes(0);
    std::copy_n(id.begin(), std::min(id.size(), invite.id.size()), invite.id.begin());
    GDF_ASSIGN_OR_RETURN(invite.roles, trust::RoleSet::FromBits(static_cast<uint32_t>(rows.Int(1))));
    invite.created_unix_ms = rows.Int(2);
    invite.expires_unix_ms = rows.Int(3);
    invite.uses_allowed = static_cast<uint32_t>(rows.Int(4));
    invite.uses = static_cast<uint32_t>(rows.Int(5));
    invite.revoked = rows.Int(6) != 0;
    GDF_ASSIGN_OR_RETURN(const Digest creator, DigestColumn(rows, 7));
    invite.created_by = NodeId(creator);
  }
  GDF_RETURN_IF_ERROR(rows.status());
  return invites;
}

absl::StatusOr<std::vector<Job>> State::jobs() { return ReadJobs(*db_); }

absl::StatusOr<Job> State::job(JobId id) { return ReadJob(*db_, id); }

absl::StatusOr<std::vector<NodeId>> State::epoch_members(JobId job, Epoch epoch) {
  GDF_ASSIGN_OR_RETURN(std::vector<NodeId> members, ReadEpochMembers(*db_, job, epoch));
  if (!members.empty()) return members;
  return absl::NotFoundError(absl::StrCat("the network's record has no epoch ", epoch.value, " of job ", ToString(job)));
}

absl::StatusOr<EpochsPast> State::epochs_past(JobId job) { return ReadEpochsPast(*db_, job); }

absl::StatusOr<std::vector<Event>> State::QueryEvents(std::string where, std::vector<store::Value> values,
                                                      const EventFilter& filter, std::string_view order, size_t limit) {
  std::string sql = absl::StrCat("SELECT id, at, job, node, severity, text FROM events WHERE severity >= ?", where);
  values.insert(values.begin(), static_cast<int64_t>(filter.at_least));
  if (filter.job) {
    sql += " AND job = ?";
    values.push_back(store::ToValue(filter.job->value));
  }
  if (filter.node) {
    sql += " AND node = ?";
    values.push_back(ToBlob(*filter.node));
  }
  absl::StrAppend(&sql, " ORDER BY id", ToAbsl(order), " LIMIT ?");
  values.push_back(store::ToValue(limit));
  GDF_ASSIGN_OR_RETURN(store::Rows rows, db_->QueryValues(sql, values));
  std::vector<Event> events;
  while (rows.Next()) {
    GDF_ASSIGN_OR_RETURN(const Digest node, DigestColumn(rows, 3));
    events.push_back({rows.Unsigned(0), rows.Int(1), JobId{rows.Unsigned(2)}, NodeId(node),
                      static_cast<wire::Severity>(rows.Int(4)), std::string(rows.Text(5))});
  }
  GDF_RETURN_IF_ERROR(rows.status());
  return events;
}

absl::StatusOr<std::vector<Event>> State::events(uint64_t after, const EventFilter& filter, size_t limit) {
  return QueryEvents(" AND id > ?", {store::ToValue(after)}, filter, "", limit);
}

absl::StatusOr<std::vector<Event>> State::newest_events(const EventFilter& filter, size_t limit) {
  GDF_ASSIGN_OR_RETURN(std::vector<Event> events, QueryEvents("", {}, filter, " DESC", limit));
  std::reverse(events.begin(), events.end());
  return events;
}

absl::StatusOr<std::vector<RoundRecord>> State::rounds(JobId job, RoundId from_round, size_t limit) {
  GDF_ASSIGN_OR_RETURN(store::Rows rows, db_->Query("SELECT round, epoch, at, theta, metrics FROM rounds WHERE job = ? "
                                                    "AND round >= ? ORDER BY round LIMIT ?",
                                                    job.value, from_round.value, limit));
  std::vector<RoundRecord> rounds;
  while (rows.Next()) {
    RoundRecord& round = rounds.emplace_back();
    round.round.value = rows.Unsigned(0);
    round.epoch.value = rows.Unsigned(1);
    round.at_unix_ms = rows.Int(2);
    GDF_ASSIGN_OR_RETURN(round.theta, DigestColumn(rows, 3));
    GDF_ASSIGN_OR_RETURN(round.metrics, wire::DecodeRoundMetrics(rows.Bytes(4)));
  }
  GDF_RETURN_IF_ERROR(rows.status());
  return rounds;
}

absl::StatusOr<std::vector<LogEntry>> State::LogEntries(uint64_t from, size_t max_bytes) {
  GDF_ASSIGN_OR_RETURN(store::Rows rows,
                       db_->Query("SELECT log_index, command FROM log WHERE log_index >= ? ORDER BY log_index", from));
  std::vector<LogEntry> entries;
  size_t bytes = 0;
  while (rows.Next()) {
    const std::string_view command = rows.Bytes(1);
    if (!entries.empty() && bytes + command.size() > max_bytes) break;
    bytes += command.size();
    entries.push_back({rows.Unsigned(0), std::string(command)});
  }
  GDF_RETURN_IF_ERROR(rows.status());
  return entries;
}

absl::StatusOr<Digest> State::LogDigest(uint64_t index) {
  if (index == 0) return Digest{};
  GDF_ASSIGN_OR_RETURN(store::Rows rows, db_->Query("SELECT chain FROM log WHERE log_index = ?", index));
  if (rows.Next()) return DigestColumn(rows, 0);
  GDF_RETURN_IF_ERROR(rows.status());
  return absl::NotFoundError(absl::StrCat("the log has ", tip_.index, " entries, no entry ", index));
}

State::WatcherId State::AddWatcher(absl::AnyInvocable<void(uint64_t index)> watcher) {
  watchers_[next_watcher_] = std::make_shared<absl::AnyInvocable<void(uint64_t)>>(std::move(watcher));
  return next_watcher_++;
}

void State::RemoveWatcher(WatcherId id) { watchers_.erase(id); }

}  // namespace gdf::state
