// The commands that change a network's state, as values, and their bytes (proto/state.proto,
// docs/formats/command-log.md). Decoding bounds every number and length; what it returns is safe to
// store. Time, randomness and ids are inside the command, so that applying it is deterministic.
#ifndef GDF_CORE_WIRE_STATE_COMMANDS_H_
#define GDF_CORE_WIRE_STATE_COMMANDS_H_

#include <array>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/ids.h"

namespace gdf::wire {

inline constexpr size_t kMaxCommandBytes = size_t{4} << 20;
inline constexpr size_t kMaxTextBytes = 4096;  // reasons, messages, event texts
inline constexpr size_t kMaxAddresses = 8;
inline constexpr size_t kMaxAddressBytes = 255;
inline constexpr size_t kMaxGpus = 64;
inline constexpr size_t kMaxSpecBytes = size_t{1} << 20;
inline constexpr std::string_view kJobInputNames[] = {"data", "valid", "model", "tokenizer"};
inline constexpr size_t kMaxInputs = std::size(kJobInputNames);
inline constexpr size_t kMaxEpochMembers = 1024;
inline constexpr size_t kMaxTokenBytes = 128;
inline constexpr size_t kMaxInviteUses = 1'000'000;

using RequestId = std::array<uint8_t, 16>;
using InviteId = std::array<uint8_t, 16>;  // trust::InviteId

struct GpuResource {
  std::string name;
  uint64_t memory_bytes = 0;
  bool operator==(const GpuResource&) const = default;
};

// What a node offers, within its owner's limits.
struct NodeResources {
  uint32_t cpu_threads = 0;
  uint64_t memory_bytes = 0;
  uint64_t disk_cap_bytes = 0;
  std::vector<GpuResource> gpus;
  bool paused = false;  // the node's owner has it take no work
  bool operator==(const NodeResources&) const = default;
};

// What a node says about itself.
struct NodeProfile {
  std::string name;  // wished for; a joining node whose name is taken gets a number appended
  std::vector<std::string> addresses;  // "host:port" on which it can be dialled; none behind a NAT
  NodeResources resources;
  std::string version;  // of the program
  bool relay = false;   // passes on what members cannot send each other directly
  bool operator==(const NodeProfile&) const = default;
};

struct CreateNetwork {
  std::string genesis;  // signed record (trust::Genesis); its coordinator is the actor
  NodeProfile node;
  bool operator==(const CreateNetwork&) const = default;
};

struct CreateInvite {
  InviteId id{};
  Digest secret_hash;  // trust::InviteSecretHash
  uint32_t roles = 0;  // trust::RoleSet bits
  int64_t expires_unix_ms = 0;
  uint32_t uses = 1;
  bool operator==(const CreateInvite&) const = default;
};

struct RevokeInvite {
  InviteId id{};
  bool operator==(const RevokeInvite&) const = default;
};

// The actor, already authenticated by the transport, joins with its public key.
struct Join {
  NetworkId network;  // the one the invite names
  InviteId invite{};
  Digest secret_hash;  // of the secret shown to the coordinator, which is itself never logged
  std::array<uint8_t, 32> public_key{};
  NodeProfile node;
  bool operator==(const Join&) const = default;
};

struct SetRole {
  NodeId node;
  uint32_t roles = 0;
  bool operator==(const SetRole&) const = default;
};

struct RemoveNode {
  NodeId node;
  std::string reason;
  bool operator==(const RemoveNode&) const = default;
};

struct BanNode {
  NodeId node;
  std::string reason;
  bool operator==(const BanNode&) const = default;
};

struct UnbanNode {
  NodeId node;
  bool operator==(const UnbanNode&) const = default;
};

struct RotateKey {
  std::string record;  // trust::KeyRotation; the actor is the old key's node
  bool operator==(const RotateKey&) const = default;
};

struct UpdateNode {
  NodeProfile node;
  bool operator==(const UpdateNode&) const = default;
};

// A file set that job.yaml names, as content.
struct JobInput {
  std::string name;  // one of kJobInputNames: what the files are for, and their folder on the nodes
  Digest manifest;
  uint64_t size_bytes = 0;
  NodeId holder;  // a node that has all of it at the time of submission
  bool operator==(const JobInput&) const = default;
};

struct SubmitJob {
  std::string name;
  std::string submit_token;  // chosen by the user or random; with the actor it names the job
  std::string spec_yaml;     // strictly parsed by whoever submits and by every node
  std::vector<JobInput> inputs;  // distinct names
  uint64_t planned_rounds = 0;   // at least 1
  bool operator==(const SubmitJob&) const = default;
};

// A (new) set of members and lead for a job. The first starts it. Coordinators only.
struct OpenEpoch {
  JobId job;
  Epoch epoch;  // the job's current one + 1
  std::vector<NodeId> members;  // distinct
  NodeId lead;                  // one of them
  std::string reason;
  bool operator==(const OpenEpoch&) const = default;
};

// Of one round over all its members. Rates and times are finite and not negative.
struct RoundMetrics {
  std::optional<double> train_loss;  // mean over the round; absent when none is finite
  std::optional<double> valid_loss;  // at θ_{r+1}; absent when not validated
  uint64_t tokens = 0;               // trained on in this round
  double tokens_per_sec = 0;
  uint64_t bytes_sent = 0;           // by all members, as the kernel counted them
  uint64_t bytes_received = 0;
  double compute_sec = 0;            // the slowest member's, as are the next three
  double compress_sec = 0;
  double exchange_sec = 0;
  double aggregate_sec = 0;
  double utilisation = 0;            // of the members' time in compute, 0 to 1
  uint32_t contributors = 0;         // members whose delta was applied
  Digest fragment;                   // of the part of θ_{r+1} that the round exchanged; zero: all of it
  bool operator==(const RoundMetrics&) const = default;
};

// The lead's summary of a committed round. Its epoch must be the job's current one.
struct ReportJob {
  JobId job;
  Epoch epoch;
  RoundId round;  // r took θ_r to θ_{r+1}
  Digest theta;   // Merkle root of θ_{r+1}
  RoundMetrics metrics;
  std::string message;
  bool operator==(const ReportJob&) const = default;
};

enum class Verdict { kNone = 0, kSucceeded = 1, kFailed = 2, kCancelled = 3 };
std::string_view ToString(Verdict verdict);  // "none", "succeeded", "failed", "cancelled"

// By the lead of the current epoch or a coordinator. Final.
struct FinishJob {
  JobId job;
  Epoch epoch;  // the job's current one; 0 before the first
  Verdict verdict = Verdict::kNone;
  std::string reason;
  Digest theta;  // of the final parameters; zero when there are none
  uint64_t rounds_done = 0;
  bool operator==(const FinishJob&) const = default;
};

// By its submitter or an admin. Ends the job at once with verdict cancelled; its nodes stop when they see it.
struct CancelJob {
  JobId job;
  std::string reason;
  bool operator==(const CancelJob&) const = default;
};

enum class Severity { kInfo = 0, kWarning = 1, kError = 2 };
std::string_view ToString(Severity severity);  // "info", "warning", "error"

// Something people should see: by a member of the job (about itself) or a coordinator (about any node).
struct JobEvent {
  JobId job;  // 0: about the node, not about a job
  NodeId node;
  Severity severity = Severity::kInfo;
  std::string text;
  bool operator==(const JobEvent&) const = default;
};

enum class RecruitAction {
  kCall = 0,     // the node prepares to join, and says when it is ready
  kDismiss = 1,  // it is needed no more
  kExclude = 2,  // it is not called to this job again
};

// About a node that is no member of a running job. Coordinators only.
struct Recruit {
  JobId job;
  NodeId node;
  RecruitAction action = RecruitAction::kCall;
  std::string reason;
  bool operator==(const Recruit&) const = default;
};

inline constexpr uint64_t kMaxOwnRollbacks = 10;

// By its submitter or an admin, or by its lead when the job has gone wrong, at most kMaxOwnRollbacks times: opens an epoch of
// the running job, with the nodes that it has, that goes on from what `round` rounds had made, as members keep it for people.
// What came after it counts no more.
struct RollBackJob {
  JobId job;
  RoundId round;  // at least 1
  Digest theta;   // after it
  std::string reason;
  Epoch epoch = {};  // the job's current one, whose lead this is by; 0: by people
  bool operator==(const RollBackJob&) const = default;
};

// The node records commands from now on, together with the coordinators that there are.
struct AddCoordinator {
  NodeId node;
  bool operator==(const AddCoordinator&) const = default;
};

struct RemoveCoordinator {
  NodeId node;
  bool operator==(const RemoveCoordinator&) const = default;
};

// By a coordinator that has lost most of the others for good: it is the only one from now on.
struct RecoverNetwork {
  bool operator==(const RecoverNetwork&) const = default;
};

using CommandBody =
    std::variant<CreateNetwork, CreateInvite, RevokeInvite, Join, SetRole, RemoveNode, BanNode, UnbanNode,
                 RotateKey, UpdateNode, SubmitJob, OpenEpoch, ReportJob, FinishJob, CancelJob, JobEvent, Recruit, RollBackJob,
                 AddCoordinator, RemoveCoordinator, RecoverNetwork>;

std::string_view CommandName(const CommandBody& body);  // "create_network", ...

struct Command {
  RequestId request{};  // random; a repeated one gets the first result
  NodeId actor;         // who asks, as authenticated
  int64_t at_unix_ms = 0;  // set by the coordinator; never goes back within a log
  CommandBody body;
  bool operator==(const Command&) const = default;
};

// What a command did. A refused command changes nothing but is in the log like any other.
struct CommandResult {
  absl::Status status;
  JobId job;         // SubmitJob
  std::string name;  // Join, CreateNetwork, UpdateNode: the name given to the node
  bool operator==(const CommandResult&) const = default;
};

// Equal commands give equal bytes. Commands that CheckCommand refuses must not be encoded.
std::string EncodeCommand(const Command& command);
// kInvalidArgument names the field, its value and its bound.
absl::StatusOr<Command> DecodeCommand(std::string_view bytes);
// The bounds that DecodeCommand enforces, for commands built here.
absl::Status CheckCommand(const Command& command);
absl::Status CheckNodeProfile(const NodeProfile& profile);
absl::Status CheckJobInputs(const std::vector<JobInput>& inputs);
absl::Status CheckRoundMetrics(const RoundMetrics& metrics);

std::string EncodeCommandResult(const CommandResult& result);
absl::StatusOr<CommandResult> DecodeCommandResult(std::string_view bytes);

// Parts of commands as bytes, for columns of the state's database. Same bounds.
std::string EncodeNodeProfile(const NodeProfile& profile);
absl::StatusOr<NodeProfile> DecodeNodeProfile(std::string_view bytes);
std::string EncodeJobInputs(const std::vector<JobInput>& inputs);
absl::StatusOr<std::vector<JobInput>> DecodeJobInputs(std::string_view bytes);
std::string EncodeRoundMetrics(const RoundMetrics& metrics);
absl::StatusOr<RoundMetrics> DecodeRoundMetrics(std::string_view bytes);

}  // namespace gdf::wire

#endif  // GDF_CORE_WIRE_STATE_COMMANDS_H_
