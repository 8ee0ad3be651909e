// What the members of one job say to each other in a round, as values: requests of the lead, replies of the members,
// and the receipt that commits a round. Everything decoded here is bounded; docs/formats/round-messages.md.
#ifndef GDF_CORE_WIRE_ROUND_MESSAGES_H_
#define GDF_CORE_WIRE_ROUND_MESSAGES_H_

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/buffer.h"
#include "core/base/hash.h"
#include "core/base/ids.h"

namespace gdf::wire {

inline constexpr size_t kMaxRoundMembers = 1024;
inline constexpr uint32_t kMaxRoundCodecs = 64;  // of a job
inline constexpr size_t kMaxHeldBytes = 65536;  // one bit for a MiB of float32: 2^37 parameters
inline constexpr uint64_t kMaxRoundTokens = 1'000'000'000;  // of one member in one round: its weight
inline constexpr uint32_t kMaxLeavesAsked = 64;  // of a state, by one message
inline constexpr uint64_t kMaxRounds = uint64_t{1} << 40;
inline constexpr size_t kMaxReasonBytes = 512;
inline constexpr double kMaxFigure = 1e30;  // of losses, norms and seconds: what is more, or not finite, is refused
inline constexpr uint64_t kMaxRate = 1'000'000'000'000;  // of bytes or values a second, that a member tells
inline constexpr absl::Duration kMaxRtt = absl::Minutes(1);
inline constexpr absl::Duration kNearRtt = absl::Milliseconds(2);  // of a local network; a wide-area link is above it
inline constexpr uint32_t kSharesWhole = 65536;  // what the shares of an exchange add up to

// What every frame and request of an exchange is about.
struct RoundTag {
  JobId job;
  Epoch epoch;
  RoundId round;         // takes θ_round to θ_round+1
  uint32_t attempt = 0;  // of this round in this epoch
  auto operator<=>(const RoundTag&) const = default;
  std::string ToString() const;  // for people, who count rounds from 1: "j3 epoch 2 round 17 attempt 0"
};

// The lead and the members of a job from one epoch to the next, as the coordinators opened it.
struct EpochRecord {
  Epoch epoch;
  NodeId lead;
  std::vector<NodeId> members;  // distinct; the lead is one of them
  bool operator==(const EpochRecord&) const = default;
  bool Has(const NodeId& node) const;
  size_t majority() const { return members.size() / 2 + 1; }
};

// A place in the data that all members share.
struct DataCursor {
  int64_t epoch = 0;
  int64_t position = 0;
  auto operator<=>(const DataCursor&) const = default;
};

// Outer state after `round` rounds: θ_round, its momentum (zero digest when there is none), the data read so far.
struct StateId {
  RoundId round;
  Digest theta;
  Digest momentum;
  DataCursor cursor;
  bool operator==(const StateId&) const = default;
};

// One member's part in a mean. Weight: the tokens it trained on.
struct Contribution {
  NodeId node;
  uint64_t tokens = 0;
  bool operator==(const Contribution&) const = default;
};
// Those of an exchange's members who contribute, in their order: what its receipt names.
std::vector<Contribution> Contributing(const std::vector<Contribution>& members);

// Says how θ_round became the next state, and from whom. Signed by members, committed by a majority of `voters`.
struct Receipt {
  RoundTag tag;
  std::vector<NodeId> voters;  // the members of tag.epoch
  std::vector<Contribution> contributions;
  Digest start_theta;
  StateId result;  // result.round == tag.round + 1
  uint32_t codec = 0;       // that packed the contributions: which of the job's
  uint32_t next_codec = 0;  // and which packs those of the next round
  Digest fragment = {};     // of the part of the result's θ that the round exchanged; zero: all of it
  bool operator==(const Receipt&) const = default;
  // SHA-256 over a fixed layout of all fields: what members sign.
  Digest SigningDigest() const;
  bool Contributed(const NodeId& node) const;
};

struct NodeSignature {
  std::array<uint8_t, 32> public_key{};  // Ed25519; its hash is the NodeId
  std::array<uint8_t, 64> signature{};
  bool operator==(const NodeSignature&) const = default;
};

// A receipt with the signatures that commit it.
struct Commit {
  Receipt receipt;
  std::vector<NodeSignature> signatures;
  bool operator==(const Commit&) const = default;
};

// --- Requests, lead to member ---

// "This epoch has begun; what do you hold?" The member refuses older epochs from now on.
struct Enter {
  JobId job;
  EpochRecord epoch;
  bool operator==(const Enter&) const = default;
};

// "Fetch `target` from `source`": into the shadow, or as the committed state when `install`.
struct SyncState {
  RoundTag tag;
  StateId target;
  std::vector<NodeId> sources;  // that hold it
  bool install = false;
  std::optional<Commit> commit;  // of target, when it was committed by one
  bool verify = false;           // even where it is the committed state already: the members do not agree on what follows it
  bool operator==(const SyncState&) const = default;
};

// Steps 1 to 6 of a round.
struct RoundPlan {
  RoundTag tag;
  Digest start_theta;
  uint64_t seed = 0;
  uint64_t from_step = 0;   // inner steps done before this round
  uint64_t until_step = 0;  // and after it
  uint32_t member_index = 0;
  uint32_t num_members = 1;
  DataCursor cursor;
  absl::Duration deadline;  // from its arrival
  uint32_t codec = 0;       // which of the job's
  bool operator==(const RoundPlan&) const = default;
};

// Step 7 and 9: exchange among `members`, in this order; 0 tokens: takes part without a contribution.
struct ExchangeStart {
  RoundTag tag;
  std::vector<Contribution> members;
  absl::Duration deadline;
  // The attempt that began the exchange of these members' same deltas, which this one goes on with;
  // 0: it begins here.
  uint32_t resumes = 0;
  std::vector<NodeId> lost = {};  // of `members`, in the order of their loss; without tokens
  // Of the delta, by member: kSharesWhole in all, none above twice an equal one. Empty: equal.
  std::vector<uint32_t> shares = {};
  uint32_t codec = 0;  // which of the job's
  // In a job whose rounds have two passes: the digest of the mean that the first one came to, as its Prepared has it
  // in place of theta. None: this is the first.
  std::optional<Digest> first_pass = {};
  std::vector<uint32_t> sites = {};  // where each member is, equal numbers at the same one; empty: not by sites
  std::vector<NodeId> left_out = {};  // of `members`: their deltas are wrong, and are not to come with a later one either
  bool operator==(const ExchangeStart&) const = default;
};

// "Persist and sign this."
struct Propose {
  Receipt receipt;
  bool operator==(const Propose&) const = default;
};

// Step 10.
struct CommitRound {
  RoundTag tag;  // of the lead's epoch
  Commit commit;
  bool operator==(const CommitRound&) const = default;
};

// Ends an attempt; what was computed is kept. With `lost`: only where it still waits for one of
// these.
struct Abort {
  RoundTag tag;
  std::string reason;
  std::vector<NodeId> lost = {};
  bool operator==(const Abort&) const = default;
};

// The job has ended: no more rounds. A failed one says why.
struct EndJob {
  RoundTag tag;
  std::string failure;  // empty: it is complete
  bool operator==(const EndJob&) const = default;
};

using RoundRequest =
    std::variant<Enter, SyncState, RoundPlan, ExchangeStart, Propose, CommitRound, Abort, EndJob>;

// --- Replies, member to lead ---

struct EnterReply {
  StateId committed;
  std::optional<Commit> commit;        // of `committed`; none for θ_0
  std::optional<Receipt> prepared;     // signed here for the round after `committed`, its result held
  std::optional<EpochRecord> previous;  // the epoch last entered before this one
  uint64_t num_params = 0;
  uint32_t last_attempt = 0;  // the highest heard of in this epoch
  bool operator==(const EnterReply&) const = default;
};

struct RoundReport {
  RoundTag tag;
  std::string refused;  // why there is no contribution (NaN); empty: there is one
  uint64_t tokens = 0;
  uint64_t steps = 0;
  double mean_loss = 0;
  double delta_norm = 0;
  double train_seconds = 0;
  double compress_seconds = 0;
  DataCursor cursor;
  Digest packed;  // Merkle root of the packed delta, committed before the exchange
  bool at_fault = false;  // it is refused for what the worker came to
  bool operator==(const RoundReport&) const = default;
};

// What a member's link and processor did in one exchange, as it says itself. 0: too little happened to tell.
struct LinkFigures {
  uint64_t up_bytes_per_sec = 0;  // at most kMaxRate, as all here
  uint64_t down_bytes_per_sec = 0;
  absl::Duration rtt;           // of its farthest peer, before the exchange; to kMaxRtt
  uint64_t values_per_sec = 0;  // decoded, added up or encoded
  std::vector<NodeId> near = {};  // its peers within kNearRtt
  bool operator==(const LinkFigures&) const = default;
};

struct Prepared {
  RoundTag tag;
  StateId result;             // cursor unset
  std::vector<NodeId> lost;   // peers that did not answer; not empty: there is no result
  std::string failure;        // why there is none
  double exchange_seconds = 0;
  double aggregate_seconds = 0;
  uint64_t payload_sent = 0;  // bytes of frames in this exchange
  uint64_t payload_received = 0;
  LinkFigures link = {};
  Digest fragment = {};  // as the receipt's
  bool operator==(const Prepared&) const = default;
};

struct Signed {
  NodeSignature signature;
  bool operator==(const Signed&) const = default;
};

// Done. As a reply to CommitRound with the node's traffic with the members since its last one, as the kernel counted it.
struct Done {
  uint64_t bytes_sent = 0;
  uint64_t bytes_received = 0;
  bool operator==(const Done&) const = default;
};

using RoundReply = std::variant<EnterReply, RoundReport, Prepared, Signed, Done>;

// --- Data plane: the first message of a stream; frames of raw bytes follow ---

// Opens an exchange between the opener and one owner: the opener's slice of the owner's shard goes there, the
// reduced shard comes back.
struct ExchangeHello {
  RoundTag tag;
  uint32_t shard = 0;
  uint64_t num_params = 0;
  bool contributes = false;
  // One bit a piece of the owner's, from the lowest bit of the first byte: its mean is held. Empty
  // when nothing is resumed.
  std::string held = {};
  bool operator==(const ExchangeHello&) const = default;
};

// The owner's first message when an exchange is resumed: the pieces of which it holds the opener's
// slice.
struct ExchangeHeld {
  std::string held;
  bool operator==(const ExchangeHeld&) const = default;
};

// Asks for the bytes of a state: θ, then its momentum.
struct FetchState {
  JobId job;
  StateId state;
  bool operator==(const FetchState&) const = default;
};

// After it, on the same stream: leaves [first, first + count) of the state's digests, those of θ and then the momentum's; of
// none: the digests of all.
struct FetchLeaves {
  uint64_t first = 0;
  uint32_t count = 0;
  bool operator==(const FetchLeaves&) const = default;
};

Buffer EncodeRoundRequest(const RoundRequest& request);
Buffer EncodeRoundReply(const RoundReply& reply);
Buffer EncodeExchangeHello(const ExchangeHello& hello);
Buffer EncodeExchangeHeld(const ExchangeHeld& held);
Buffer EncodeFetchState(const FetchState& fetch);
Buffer EncodeFetchLeaves(const FetchLeaves& fetch);
std::string EncodeCommit(const Commit& commit);
std::string EncodeReceipt(const Receipt& receipt);
std::string EncodeEpochRecord(const EpochRecord& record);

// Bytes from a peer or a disk. kInvalidArgument naming the field that is missing, malformed or out of bounds.
absl::StatusOr<RoundRequest> DecodeRoundRequest(absl::Span<const uint8_t> bytes);
absl::StatusOr<RoundReply> DecodeRoundReply(absl::Span<const uint8_t> bytes);
absl::StatusOr<ExchangeHello> DecodeExchangeHello(absl::Span<const uint8_t> bytes);
absl::StatusOr<ExchangeHeld> DecodeExchangeHeld(absl::Span<const uint8_t> bytes);
absl::StatusOr<FetchState> DecodeFetchState(absl::Span<const uint8_t> bytes);
absl::StatusOr<FetchLeaves> DecodeFetchLeaves(absl::Span<const uint8_t> bytes);
absl::StatusOr<Commit> DecodeCommit(absl::Span<const uint8_t> bytes);
absl::StatusOr<Receipt> DecodeReceipt(absl::Span<const uint8_t> bytes);
absl::StatusOr<EpochRecord> DecodeEpochRecord(absl::Span<const uint8_t> bytes);

// The tag that a request is about; Enter has round 0 and attempt 0.
RoundTag TagOf(const RoundRequest& request);

}  // namespace gdf::wire

#endif  // GDF_CORE_WIRE_ROUND_MESSAGES_H_
