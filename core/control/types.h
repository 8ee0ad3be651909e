// What the control API talks about, as plain values: proto/control.proto documents each field. Ids are texts here, as
// people type and read them.
#ifndef GDF_CORE_CONTROL_TYPES_H_
#define GDF_CORE_CONTROL_TYPES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace gdf::control {

enum class JobPhase { kUnknown, kPending, kRunning, kSucceeded, kFailed, kCancelled };

const char* ToString(JobPhase phase);  // "pending", ...
inline bool Ended(JobPhase phase) {
  return phase == JobPhase::kSucceeded || phase == JobPhase::kFailed || phase == JobPhase::kCancelled;
}

struct Gpu {
  std::string name;
  uint64_t memory_bytes = 0;
};

struct Node {
  std::string id;
  std::string name;
  std::string roles;  // "submitter,contributor"
  std::string state;
  bool online = false;
  bool paused = false;
  bool coordinator = false;
  bool leads = false;  // the coordinators
  std::vector<std::string> addresses;
  uint32_t cpu_threads = 0;
  uint64_t memory_bytes = 0;
  std::vector<Gpu> gpus;
  std::string version;
  absl::Time joined;
  absl::Duration rtt;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
};

struct Round {
  uint64_t round = 0;
  std::optional<double> loss;
  std::optional<double> validation_loss;
  uint64_t tokens = 0;
  double tokens_per_sec = 0;
  double utilisation = 0;
  uint64_t epoch = 0;
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  absl::Duration compute, compress, exchange, aggregate;
  uint32_t members = 0;
  std::string digest;
  std::string fragment_digest;  // empty where a round exchanges all
  absl::Time at;
};

struct Event {
  uint64_t id = 0;
  absl::Time at;
  std::string job;
  std::string node;
  std::string severity;
  std::string text;
  std::string node_name;
};

struct Job {
  std::string id;
  std::string name;
  JobPhase phase = JobPhase::kUnknown;
  std::string reason;
  std::string submitter;
  absl::Time submitted, started, ended;  // InfinitePast: not yet
  uint64_t epoch = 0;
  std::string lead;
  std::vector<std::string> members;
  uint64_t rounds_done = 0;
  uint64_t rounds_total = 0;
  uint64_t steps_total = 0;
  std::optional<Round> last_round;
  std::string spec_yaml;
  std::string submitter_name;
  std::string lead_name;
  std::vector<std::string> member_names;  // as `members`
};

struct NodeStatus {
  std::string version;
  std::string node_id;
  std::string node_name;
  std::string network_id;
  std::string network_name;
  std::string roles;  // "submitter,contributor"
  bool coordinator = false;
  bool coordinator_connected = false;
  uint32_t coordinators = 0;
  std::string leader;         // the coordinator that leads; empty: none, as far as is known here
  absl::Duration leaderless;  // on a coordinator: since it heard one
  uint64_t log_index = 0;
  std::vector<std::string> listen;
  std::vector<std::string> advertise;
  uint32_t members = 0;
  uint32_t members_online = 0;
  uint32_t jobs_pending = 0;
  uint32_t jobs_running = 0;
  std::vector<Job> running;
  std::vector<std::string> warnings;
  std::vector<std::string> sandbox;
  absl::Time started;
  uint64_t chunk_bytes = 0;
  uint64_t chunk_cap_bytes = 0;
  std::vector<Gpu> gpus;  // that this node's workers can use
  bool paused = false;
  absl::Time paused_until;  // InfinitePast: until it is resumed
  uint32_t running_here = 0;
};

struct Explanation {
  std::string name;
  std::string answer;
  std::vector<std::string> because;
  std::vector<std::string> advice;
};

struct Invite {
  std::string id;
  std::string roles;  // "submitter,contributor"
  absl::Time expires;
  uint32_t uses_left = 0;
  bool revoked = false;
  std::string text;  // "gdf1:…", only when just created
};

// What one message to a node and back has told.
struct PingResult {
  std::string id;
  std::string name;
  std::string remote;    // host:port of the connection's other end
  bool dialled = false;  // by this node; else by that one
  uint32_t connections = 0;
  absl::Duration round_trip;        // of this message, through both programs
  absl::Duration tcp_rtt;           // smoothed, as the kernel has it
  uint64_t rate_bytes_per_sec = 0;  // at which bulk data last arrived there; 0: too little was sent
  bool bulk_in_clear = false;       // without TLS, as both owners allow
  std::string relay;                // name of the node by way of which it is reached; empty: directly
};

enum class NodeChange { kRemove, kBan, kUnban, kRole, kAddCoordinator, kRemoveCoordinator };

struct JobPlan {
  bool placeable = false;
  std::string reason;
  std::vector<std::string> nodes;
  std::string lead;
  uint64_t parameters = 0;
  uint64_t rounds = 0;
  uint64_t bytes_per_round_per_node = 0;
  std::vector<std::pair<std::string, uint64_t>> host_memory;
  std::vector<std::pair<std::string, uint64_t>> gpu_memory;
  absl::Duration duration;  // zero: unknown
  std::string measured_in;  // the job whose speed that rests on
};

struct PlanRequest {
  std::string spec_yaml;
  uint64_t data_bytes = 0;
  std::string hf_config_json;  // of model.from; empty when the spec has the shape
};

struct SubmitRequest {
  std::string spec_yaml;
  std::map<std::string, std::string> inputs;  // upload name to manifest digest
  std::string submit_token;
  std::string hf_config_json;
};

struct SubmitResult {
  std::string job;  // empty when refused
  bool existed = false;
  std::string refused;
};

struct UploadResult {
  std::string manifest;
  uint64_t bytes = 0;
};

struct CheckpointCopy {
  std::string node;
  std::string node_name;
  absl::Time written;
  uint64_t new_bytes = 0;
  bool inner_state = false;
  bool parameters = false;
};

struct Checkpoint {
  uint64_t round = 0;  // how many made it
  std::string digest;
  std::string momentum_digest;
  uint64_t parameters = 0;
  uint64_t epoch = 0;
  int64_t data_epoch = 0;
  int64_t data_position = 0;
  std::vector<std::string> signers;
  std::vector<std::string> signer_names;  // as `signers`
  std::vector<CheckpointCopy> copies;
  uint64_t wanted = 0;  // of copies with its parameters
};

struct CheckpointList {
  std::vector<Checkpoint> checkpoints;  // ascending by round
  std::vector<std::string> silent;      // members that did not say what they keep
  std::vector<std::string> silent_names;
  std::vector<std::string> passed_over;  // what of the daemon's own is damaged or not this job's, and why
};

struct CheckpointCheck {
  struct Chunk {
    std::string id;
    std::string part;
  };
  uint64_t chunks = 0;  // that are whole
  uint64_t bytes = 0;
  bool parameters = false;
  bool outer_state = false;
  bool inner_state = false;
  std::vector<Chunk> repaired;
  std::vector<Chunk> missing;
  std::string why_not;
  std::string wrong;
  bool whole() const { return missing.empty() && wrong.empty(); }
};

struct GenerateRequest {
  std::string job;
  std::string prompt;
  uint32_t max_tokens = 200;
  double temperature = 0.8;
  uint32_t top_k = 0;
  uint64_t seed = 0;
};

struct GenerateResult {
  uint32_t tokens = 0;
  absl::Duration duration;
};

}  // namespace gdf::control

#endif  // GDF_CORE_CONTROL_TYPES_H_
