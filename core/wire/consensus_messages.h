// Messages between coordinators as values (docs/formats/consensus.md). Decode functions bound every number and length;
// anything malformed is kInvalidArgument.
#ifndef GDF_CORE_WIRE_CONSENSUS_MESSAGES_H_
#define GDF_CORE_WIRE_CONSENSUS_MESSAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/hash.h"

namespace gdf::wire {

inline constexpr size_t kMaxEntriesPerCall = 4'096;              // decided and not, each
inline constexpr uint64_t kMaxTerm = uint64_t{1} << 56;          // none of these numbers comes near
inline constexpr uint64_t kMaxLogIndex = uint64_t{1} << 56;

// Decided entries of the log, encoded, from `after` + 1 on.
struct LogPart {
  uint64_t after = 0;
  Digest chain;  // of the log up to `after`
  std::vector<std::string> entries;

  uint64_t end() const { return after + entries.size(); }
  bool operator==(const LogPart&) const = default;
};

// Asks for a vote, or, on trial, whether it would be given.
struct VoteCall {
  uint64_t since = 0;  // the entry that chose the coordinators, as the caller knows
  uint64_t term = 0;
  bool trial = false;
  uint64_t accepted = 0;  // the term of the leader whose log the caller has
  uint64_t last = 0;      // that log's last entry
  uint64_t applied = 0;
  bool operator==(const VoteCall&) const = default;
};
struct VoteAnswer {
  uint64_t since = 0;
  uint64_t term = 0;
  bool granted = false;
  std::optional<LogPart> news;  // for a caller that knows an earlier choice of coordinators
  bool operator==(const VoteAnswer&) const = default;
};

// The leader says that it leads, what is decided, and what it wants to be.
struct LeadCall {
  uint64_t since = 0;
  uint64_t term = 0;
  LogPart decided;
  std::vector<std::string> tail;  // after decided.end(): not decided
  bool whole = false;             // the tail is all that the leader's log has there
  uint64_t applied = 0;
  bool operator==(const LeadCall&) const = default;
};
struct LeadAnswer {
  uint64_t since = 0;
  uint64_t term = 0;
  uint64_t applied = 0;
  uint64_t holds = 0;  // the last entry of the leader's log that is on the answering node's disk
  std::optional<LogPart> news;
  bool operator==(const LeadAnswer&) const = default;
};

std::string Encode(const VoteCall& message);
std::string Encode(const VoteAnswer& message);
std::string Encode(const LeadCall& message);
std::string Encode(const LeadAnswer& message);
absl::StatusOr<VoteCall> DecodeVoteCall(std::string_view bytes);
absl::StatusOr<VoteAnswer> DecodeVoteAnswer(std::string_view bytes);
absl::StatusOr<LeadCall> DecodeLeadCall(std::string_view bytes);
absl::StatusOr<LeadAnswer> DecodeLeadAnswer(std::string_view bytes);

}  // namespace gdf::wire

#endif  // GDF_CORE_WIRE_CONSENSUS_MESSAGES_H_
