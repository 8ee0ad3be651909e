// The network's state: a SQLite database that changes only by applying the command log, in order, on
// every node. Each entry is one transaction with its log row and last_applied, so that a crash leaves
// an entry applied once or not at all. Applying is pure: equal logs give equal states.
//
// One thread at a time (the protocol thread). Listing 100 members and 100 jobs takes about a millisecond.
#ifndef GDF_CORE_STATE_STATE_H_
#define GDF_CORE_STATE_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/ids.h"
#include "core/state/ballot.h"
#include "core/state/records.h"
#include "core/store/row_digest.h"
#include "core/store/sqlite.h"
#include "core/wire/state_commands.h"

namespace gdf::state {

// The chain digest of a log (docs/formats/command-log.md) one entry further: SHA-256(previous ‖ command).
Digest NextLogDigest(const Digest& previous, std::string_view command);

class State {
 public:
  static constexpr size_t kMaxEvents = 20'000;         // newest kept
  static constexpr size_t kMaxRoundsPerJob = 100'000;  // newest kept
  static constexpr size_t kMaxEpochsPerJob = 1'000;    // newest kept, and the first
  static constexpr size_t kMaxRequests = 10'000;       // newest results kept for repeated commands
  static constexpr size_t kMaxCoordinators = 5;

  // How much of a database Open looks through: about 100 ms of work.
  static constexpr uint64_t kMaxCheckedBytes = uint64_t{32} << 20;        // larger ones are not checked as a whole
  static constexpr uint64_t kMaxCheckedLogBytes = uint64_t{16} << 20;  // of the newest log entries

  // Opens or creates the database file `path` and checks it within the bounds above (docs/formats/command-log.md).
  // kDataLoss when it is damaged, kFailedPrecondition when a newer version wrote it.
  static absl::StatusOr<std::unique_ptr<State>> Open(const std::string& path);
  // In memory, for tests and the simulator.
  static absl::StatusOr<std::unique_ptr<State>> OpenInMemory();

  // Applies entry `index`, which must be last_applied() + 1 (kOutOfRange otherwise); one that is
  // applied already gives kAlreadyExists. A command that is not allowed gives a result with its
  // reason and is an entry all the same. The returned Status is an error of the log or the disk (bytes that
  // are no command: kInvalidArgument; disk full: kResourceExhausted) and leaves the state untouched.
  // On success the change is on the disk.
  absl::StatusOr<wire::CommandResult> Apply(uint64_t index, std::string_view command_bytes);
  // Makes `command` the next entry and applies it, as Apply; but one that is not allowed, or was applied before, becomes
  // no entry and changes nothing, so that who may do nothing adds nothing. For the one who writes the log.
  absl::StatusOr<wire::CommandResult> Append(const wire::Command& command);

  struct Outcome {
    wire::CommandResult result;
    bool entry = false;  // it would be one
  };
  // What Append would give for `commands`, one after the other; nothing is changed.
  absl::StatusOr<std::vector<Outcome>> Try(const std::vector<wire::Command>& commands);

  // The result of an earlier command of `actor` with this request id, if it is still known.
  absl::StatusOr<std::optional<wire::CommandResult>> ResultOf(const NodeId& actor,
                                                              const wire::RequestId& request);

  uint64_t last_applied() const { return tip_.index; }
  // Of an entry: since it, members() have not changed.
  uint64_t members_since() const { return members_since_; }
  int64_t last_time_unix_ms() const { return tip_.time_unix_ms; }  // of the last entry

  // kNotFound when no network was created or joined yet.
  absl::StatusOr<Network> network();
  // As in network().
  uint64_t coordinators_since();
  bool has_network() const { return tip_.index > 0; }
  absl::StatusOr<std::vector<Member>> members();  // all statuses, in order of joining
  absl::StatusOr<Member> member(const NodeId& id);  // kNotFound
  bool IsActive(const NodeId& id);                  // a member that is neither removed nor banned
  // By id, by unique prefix (at least 4 characters) of one, or by name, of members that are not removed.
  absl::StatusOr<Member> FindMember(std::string_view name_or_id);
  // kPermissionDenied unless `id` is an active member that may do `operation`.
  absl::Status CheckMember(const NodeId& id, trust::Operation operation);
  absl::StatusOr<std::vector<InviteRecord>> invites();  // in order of creation
  absl::StatusOr<std::vector<Job>> jobs();              // newest first; without spec text
  absl::StatusOr<Job> job(JobId id);                    // kNotFound; whole
  // Who the coordinators opened `epoch` of `job` with, in the record's order: under the ids of that time, with whose
  // keys they signed its commits. kNotFound: no such epoch is recorded.
  absl::StatusOr<std::vector<NodeId>> epoch_members(JobId job, Epoch epoch);
  // The epochs of `job` that are recorded: its first and the newest ones.
  absl::StatusOr<EpochsPast> epochs_past(JobId job);
  // Events with id > `after`, oldest first, at most `limit`.
  absl::StatusOr<std::vector<Event>> events(uint64_t after, const EventFilter& filter = {}, size_t limit = 1000);
  // The newest `limit` of them, oldest first.
  absl::StatusOr<std::vector<Event>> newest_events(const EventFilter& filter, size_t limit);
  // Rounds of `job` from `from_round` on, oldest first, at most `limit`.
  absl::StatusOr<std::vector<RoundRecord>> rounds(JobId job, RoundId from_round, size_t limit = 1000);

  // Entries from `from` on, together at most `max_bytes` (but at least one if there is one).
  absl::StatusOr<std::vector<LogEntry>> LogEntries(uint64_t from, size_t max_bytes);
  // SHA-256 chain over entries 1..index: SHA-256(previous ‖ bytes); zero for index 0. Two nodes whose
  // chains agree at an index hold the same log up to there. kNotFound beyond the end.
  absl::StatusOr<Digest> LogDigest(uint64_t index);
  // The database as the bytes of a file that Open takes, for a backup; about a millisecond a MiB.
  // kResourceExhausted when it is larger than `max_bytes`.
  absl::StatusOr<std::string> Snapshot(uint64_t max_bytes) { return db_->Serialize(max_bytes); }
  // Hash of everything that Apply determines; equal for equal logs. Reads all of it.
  absl::StatusOr<Digest> StateDigest() { return rows_->Compute(); }

  // The node that keeps this copy, which is no part of the network's state: none until SetKeeper. Another keeper has not
  // promised what the one before did: it abstains.
  absl::StatusOr<std::optional<NodeId>> keeper();
  absl::Status SetKeeper(const NodeId& node);

  // What this copy's node has promised as a coordinator (ballot.h). What is saved is on the disk.
  absl::StatusOr<Ballot> ballot();
  absl::Status SaveVote(uint64_t term, const std::optional<NodeId>& vote);
  // Accepts: the leader of `term` has `tail` after the last applied entry. Applying an entry takes it out of the tail.
  absl::Status SaveTail(uint64_t term, const std::vector<std::string>& tail);
  // For a copy that may be older than its node's promises.
  absl::Status Abstain();

  // For tests: asked before each change is put on the disk; not OK: it is not, and whoever wanted it gets that status.
  void set_before_commit(absl::AnyInvocable<absl::Status()> before) { before_commit_ = std::move(before); }

  // Calls `watcher` after each applied entry, with its index, on the applying thread. It may query and add or
  // remove watchers (itself too), not apply. Lives until RemoveWatcher.
  using WatcherId = uint64_t;
  WatcherId AddWatcher(absl::AnyInvocable<void(uint64_t index)> watcher);
  void RemoveWatcher(WatcherId id);

 private:
  explicit State(std::unique_ptr<store::Database> db)
      : db_(std::move(db)), rows_(std::make_unique<store::RowDigest>(*db_, "local")) {}
  static absl::StatusOr<std::unique_ptr<State>> Create(std::unique_ptr<store::Database> db);
  absl::Status LoadRowDigest();
  absl::Status SaveRowDigest();
  // Whether the rows are those that applying has left.
  absl::Status CheckRows();
  // Whether the newest entries, together about `max_bytes`, are numbered without gaps and have their chain digests.
  absl::Status CheckNewestEntries(uint64_t max_bytes);
  // `where`: more conditions, on `values`; `order`: of the ids.
  absl::StatusOr<std::vector<Event>> QueryEvents(std::string where, std::vector<store::Value> values,
                                                 const EventFilter& filter, std::string_view order, size_t limit);
  enum class Refusals { kRecorded, kDropped };
  // The end of the log.
  struct Tip {
    uint64_t index = 0;
    int64_t time_unix_ms = 0;
    Digest chain;
  };
  // Applies the entry after `tip`, inside a transaction of the caller, and moves it there if it is one.
  absl::StatusOr<Outcome> Advance(const wire::Command& command, std::string_view command_bytes, Refusals refusals,
                                  Tip& tip);
  absl::StatusOr<wire::CommandResult> Record(const wire::Command& command, std::string_view command_bytes,
                                             Refusals refusals);

  absl::Status Commit(store::Transaction& transaction);

  std::unique_ptr<store::Database> db_;
  std::unique_ptr<store::RowDigest> rows_;
  Tip tip_;
  uint64_t members_since_ = 0;
  absl::AnyInvocable<absl::Status()> before_commit_;
  WatcherId next_watcher_ = 1;
  std::map<WatcherId, std::shared_ptr<absl::AnyInvocable<void(uint64_t)>>> watchers_;
};

}  // namespace gdf::state

#endif  // GDF_CORE_STATE_STATE_H_
