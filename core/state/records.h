// What the state's queries return: plain values.
#ifndef GDF_CORE_STATE_RECORDS_H_
#define GDF_CORE_STATE_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/algorithm/container.h"
#include "core/base/ids.h"
#include "core/trust/genesis.h"
#include "core/trust/invite.h"
#include "core/trust/node_key.h"
#include "core/trust/roles.h"
#include "core/wire/state_commands.h"

namespace gdf::state {

struct Network {
  NetworkId id;
  trust::Genesis genesis;
  std::string genesis_record;        // the signed bytes, for joiners and backups
  std::vector<NodeId> coordinators;  // as they are now: keys may have been rotated; in order of their ids
  uint64_t coordinators_since = 1;   // the entry that chose them
};

enum class MemberStatus { kActive = 0, kRemoved = 1, kBanned = 2 };
std::string_view ToString(MemberStatus status);  // "active", "removed", "banned"

struct Member {
  NodeId id;
  trust::PublicKey public_key{};
  wire::NodeProfile profile;  // profile.name is unique among members that are not removed
  trust::RoleSet roles;
  MemberStatus status = MemberStatus::kActive;
  std::string reason;         // of the removal or ban
  int64_t joined_unix_ms = 0;
  bool coordinator = false;
};

struct InviteRecord {
  trust::InviteId id{};
  trust::RoleSet roles;
  int64_t created_unix_ms = 0;
  int64_t expires_unix_ms = 0;
  uint32_t uses_allowed = 0;
  uint32_t uses = 0;
  bool revoked = false;
  NodeId created_by;
};

enum class JobPhase { kPending = 0, kRunning = 1, kFinished = 2 };
std::string_view ToString(JobPhase phase);  // "pending", "running", "finished"

// Where a job was sent back to, by people or by its lead.
struct Rollback {
  Epoch epoch;    // that went on from there: states committed in earlier ones count no more
  RoundId round;  // but this one
  Digest theta;
  std::string reason;
  uint64_t by_lead = 0;  // how many of the job's rollbacks were its leads', with this one
  bool operator==(const Rollback&) const = default;
};

// A node that is not called to a job again.
struct Exclusion {
  NodeId node;
  std::string reason;
  bool operator==(const Exclusion&) const = default;
};

struct Job {
  JobId id;
  std::string name;
  NodeId owner;  // who submitted it
  std::string submit_token;
  std::string spec_yaml;               // empty in jobs()
  std::vector<wire::JobInput> inputs;  // empty in jobs()
  uint64_t planned_rounds = 0;
  JobPhase phase = JobPhase::kPending;
  wire::Verdict verdict = wire::Verdict::kNone;  // kNone until finished
  std::string reason;                  // of the verdict
  Epoch epoch;                         // 0 while pending
  std::string epoch_reason;
  std::vector<NodeId> members;         // of the epoch, under their ids now; empty while pending
  NodeId lead;
  std::vector<NodeId> recruits;        // called to join, not members yet; while running
  std::vector<Exclusion> excluded;     // in order of their nodes; while running
  std::optional<Rollback> rollback;    // the last one; not in jobs()
  uint64_t rounds_done = 0;            // rounds 0 .. rounds_done - 1 are committed
  Digest theta;                        // after them; zero before the first
  wire::RoundMetrics metrics;          // of the last reported round
  std::string message;
  int64_t submitted_unix_ms = 0;
  int64_t started_unix_ms = 0;         // 0: not yet
  int64_t finished_unix_ms = 0;        // 0: not yet

  bool IsMember(const NodeId& node) const { return absl::c_linear_search(members, node); }
  bool IsRecruit(const NodeId& node) const { return absl::c_linear_search(recruits, node); }
  bool IsExcluded(const NodeId& node) const {
    return absl::c_any_of(excluded, [&](const Exclusion& exclusion) { return exclusion.node == node; });
  }
  // Has, or may need, what the job's members have.
  bool HasPart(const NodeId& node) const { return IsMember(node) || IsRecruit(node); }
};

// Over the epochs of a job.
struct EpochsPast {
  std::vector<NodeId> members;  // of any of them, under their ids now; in order
  uint64_t most_members = 0;    // in one of them
};

struct RoundRecord {
  RoundId round;
  Epoch epoch;
  int64_t at_unix_ms = 0;
  Digest theta;
  wire::RoundMetrics metrics;
};

struct Event {
  uint64_t id = 0;  // ascending
  int64_t at_unix_ms = 0;
  JobId job;        // 0: none
  NodeId node;      // zero: none
  wire::Severity severity = wire::Severity::kInfo;
  std::string text;
};

struct EventFilter {
  std::optional<JobId> job;
  std::optional<NodeId> node;
  wire::Severity at_least = wire::Severity::kInfo;
};

struct LogEntry {
  uint64_t index = 0;
  std::string command;  // encoded wire::Command
};

}  // namespace gdf::state

#endif  // GDF_CORE_STATE_RECORDS_H_
