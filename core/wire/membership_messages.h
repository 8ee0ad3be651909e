// Messages of core/membership and core/swarm as values. Decode functions accept bytes from
// strangers: every length is bounded, and anything malformed is kInvalidArgument.
#ifndef GDF_CORE_WIRE_MEMBERSHIP_MESSAGES_H_
#define GDF_CORE_WIRE_MEMBERSHIP_MESSAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/hash.h"
#include "core/base/ids.h"

namespace gdf::wire {

inline constexpr size_t kMaxOnlineNodes = 20'000;  // in one presence list, or of its changes
inline constexpr size_t kMaxLostNodes = 1024;      // in one epoch call
inline constexpr size_t kMaxEpochReasonBytes = 512;
inline constexpr size_t kMaxEntriesPerUpdate = 4'096;  // log entries in one message

// A stranger asks to be let in.
struct JoinCall {
  NetworkId network;
  std::string command;  // encoded Join command
};
struct JoinAnswer {
  std::string result;  // encoded CommandResult
  std::string genesis;
};

// A member asks for the command log from `from_index` on.
struct WatchCall {
  uint64_t from_index = 1;
};
struct LogEntryBytes {
  uint64_t index = 0;
  std::string command;
};
struct WatchUpdate {
  std::vector<LogEntryBytes> entries;
  Digest log_digest;  // of the coordinator's log up to the last of these entries: a member whose
                      // log forks sees it
  std::optional<std::vector<NodeId>> online;  // all of them
  struct Changes {
    std::vector<NodeId> came, left;
  };
  std::optional<Changes> changes;  // instead: since the update before that told of either
  std::optional<NodeId> leader;    // with `online` or `changes`: who leads the coordinators
};

// A member asks another for a chunk or a manifest of a job.
struct ChunkCall {
  JobId job;
  Digest id;
};

// Why a node leaves a job by itself.
enum class Leaving {
  kFailed = 0,   // its worker or its disk did, or it is too slow
  kForGood = 1,  // it cannot take part, and is not to be called again
  kPaused = 2,   // its owner has paused it
};

// A member of a job asks a coordinator: "open an epoch after `current` without `lost`". A node that is called to the job:
// "I am ready to join".
struct EpochCall {
  JobId job;
  Epoch current;
  std::vector<NodeId> lost;
  std::string reason;  // encoding cuts it at kMaxEpochReasonBytes
  // Where the sender names itself as lost; kForGood, from the lead, of others too.
  Leaving leaving = Leaving::kFailed;
};

std::string Encode(const JoinCall& message);
std::string Encode(const JoinAnswer& message);
std::string Encode(const WatchCall& message);
std::string Encode(const WatchUpdate& message);
std::string Encode(const ChunkCall& message);
std::string Encode(const EpochCall& message);
absl::StatusOr<JoinCall> DecodeJoinCall(std::string_view bytes);
absl::StatusOr<JoinAnswer> DecodeJoinAnswer(std::string_view bytes);
absl::StatusOr<WatchCall> DecodeWatchCall(std::string_view bytes);
absl::StatusOr<WatchUpdate> DecodeWatchUpdate(std::string_view bytes);
absl::StatusOr<ChunkCall> DecodeChunkCall(std::string_view bytes);
absl::StatusOr<EpochCall> DecodeEpochCall(std::string_view bytes);

}  // namespace gdf::wire

#endif  // GDF_CORE_WIRE_MEMBERSHIP_MESSAGES_H_
