#include "core/wire/round_messages.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/name.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/wire/parse.h"
#include "proto/round.pb.h"

namespace gdf::wire {
namespace {

namespace pb = ::gdf::round::v1;

constexpr size_t kMaxMessageBytes = size_t{1} << 20;
constexpr absl::Duration kMaxDeadline = absl::Hours(24 * 30);

absl::Status Bad(std::string_view field, std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("round message: ", std::string(field), " ", std::string(what)));
}

absl::Status Get(std::string_view field, const std::string& in, Digest* out) {
  auto digest = Digest::FromBytes(in);
  if (!digest.ok()) return Bad(field, ToStd(digest.status().message()));
  *out = *digest;
  return absl::OkStatus();
}

// Zero where it is absent.
absl::Status GetOptional(std::string_view field, const std::string& in, Digest* out) {
  return in.empty() ? absl::OkStatus() : Get(field, in, out);
}

absl::Status Get(std::string_view field, const std::string& in, NodeId* out) {
  Digest digest;
  GDF_RETURN_IF_ERROR(Get(field, in, &digest));
  *out = NodeId(digest);
  return absl::OkStatus();
}

absl::Status GetNodes(std::string_view field,
                      const google::protobuf::RepeatedPtrField<std::string>& in,
                      std::vector<NodeId>* out) {
  if (static_cast<size_t>(in.size()) > kMaxRoundMembers) return Bad(field, "has too many nodes");
  std::set<NodeId> seen;
  for (const std::string& raw : in) {
    NodeId node;
    GDF_RETURN_IF_ERROR(Get(field, raw, &node));
    if (!seen.insert(node).second) return Bad(field, "names a node twice");
    out->push_back(node);
  }
  return absl::OkStatus();
}

absl::Status Get(const pb::Tag& in, RoundTag* out) {
  if (in.job() == 0) return Bad("tag.job", "is 0");
  if (in.round() > kMaxRounds) return Bad("tag.round", "is out of range");
  *out = RoundTag{JobId{in.job()}, Epoch{in.epoch()}, RoundId{in.round()}, in.attempt()};
  return absl::OkStatus();
}

absl::Status Get(const pb::EpochRecord& in, EpochRecord* out) {
  if (in.epoch() == 0) return Bad("epoch", "is 0");
  out->epoch = Epoch{in.epoch()};
  GDF_RETURN_IF_ERROR(Get("epoch.lead", in.lead(), &out->lead));
  GDF_RETURN_IF_ERROR(GetNodes("epoch.members", in.members(), &out->members));
  if (!out->Has(out->lead)) return Bad("epoch.lead", "is not one of the members");
  return absl::OkStatus();
}

absl::Status Get(const pb::Cursor& in, DataCursor* out) {
  if (in.epoch() < 0 || in.position() < 0) return Bad("cursor", "is negative");
  *out = DataCursor{in.epoch(), in.position()};
  return absl::OkStatus();
}

absl::Status Get(const pb::StateId& in, StateId* out) {
  if (in.round() > kMaxRounds) return Bad("state.round", "is out of range");
  out->round = RoundId{in.round()};
  GDF_RETURN_IF_ERROR(Get("state.theta", in.theta(), &out->theta));
  GDF_RETURN_IF_ERROR(Get("state.momentum", in.momentum(), &out->momentum));
  return Get(in.cursor(), &out->cursor);
}

absl::Status GetContributions(const google::protobuf::RepeatedPtrField<pb::Contribution>& in,
                              std::vector<Contribution>* out) {
  if (static_cast<size_t>(in.size()) > kMaxRoundMembers)
    return Bad("contributions", "are too many");
  std::set<NodeId> seen;
  for (const pb::Contribution& c : in) {
    Contribution contribution;
    GDF_RETURN_IF_ERROR(Get("contribution.node", c.node(), &contribution.node));
    if (!seen.insert(contribution.node).second) return Bad("contributions", "name a node twice");
    if (c.tokens() > kMaxRoundTokens) return Bad("contribution.tokens", "is out of range");
    contribution.tokens = c.tokens();
    out->push_back(contribution);
  }
  return absl::OkStatus();
}

absl::Status GetCodec(const char* field, uint32_t in, uint32_t* out) {
  if (in >= kMaxRoundCodecs) return Bad(field, "is out of range");
  *out = in;
  return absl::OkStatus();
}

absl::Status Get(const pb::Receipt& in, Receipt* out) {
  GDF_RETURN_IF_ERROR(Get(in.tag(), &out->tag));
  GDF_RETURN_IF_ERROR(GetNodes("receipt.voters", in.voters(), &out->voters));
  GDF_RETURN_IF_ERROR(GetContributions(in.contributions(), &out->contributions));
  GDF_RETURN_IF_ERROR(Get("receipt.start_theta", in.start_theta(), &out->start_theta));
  GDF_RETURN_IF_ERROR(Get(in.result(), &out->result));
  if (out->result.round != out->tag.round.next())
    return Bad("receipt.result", "is not of the next round");
  if (out->voters.empty()) return Bad("receipt.voters", "are missing");
  GDF_RETURN_IF_ERROR(GetOptional("receipt.fragment", in.fragment(), &out->fragment));
  GDF_RETURN_IF_ERROR(GetCodec("receipt.codec", in.codec(), &out->codec));
  return GetCodec("receipt.next_codec", in.next_codec(), &out->next_codec);
}

absl::Status Get(const pb::NodeSignature& in, NodeSignature* out) {
  if (in.public_key().size() != out->public_key.size()) return Bad("public_key", "is not 32 bytes");
  if (in.signature().size() != out->signature.size()) return Bad("signature", "is not 64 bytes");
  std::copy(in.public_key().begin(), in.public_key().end(), out->public_key.begin());
  std::copy(in.signature().begin(), in.signature().end(), out->signature.begin());
  return absl::OkStatus();
}

absl::Status Get(const pb::Commit& in, Commit* out) {
  GDF_RETURN_IF_ERROR(Get(in.receipt(), &out->receipt));
  if (static_cast<size_t>(in.signatures_size()) > kMaxRoundMembers) {
    return Bad("commit.signatures", "are too many");
  }
  for (const pb::NodeSignature& s : in.signatures()) {
    GDF_RETURN_IF_ERROR(Get(s, &out->signatures.emplace_back()));
  }
  return absl::OkStatus();
}

absl::Status GetDeadline(int64_t us, absl::Duration* out) {
  *out = absl::Microseconds(us);
  if (us <= 0 || *out > kMaxDeadline) return Bad("deadline", "is out of range");
  return absl::OkStatus();
}

absl::Status GetReason(std::string_view field, const std::string& in, std::string* out) {
  // People see it in a terminal. Senders pass it through SafeText.
  GDF_RETURN_IF_ERROR(CheckText(field, in, kMaxReasonBytes));
  *out = in;
  return absl::OkStatus();
}

absl::Status GetFigure(std::string_view field, double in, double* out) {
  if (!std::isfinite(in) || std::fabs(in) > kMaxFigure) return Bad(field, "is not a usable number");
  *out = in;
  return absl::OkStatus();
}

absl::Status Get(const pb::Enter& in, Enter* out) {
  if (in.job() == 0) return Bad("enter.job", "is 0");
  out->job = JobId{in.job()};
  return Get(in.epoch(), &out->epoch);
}

absl::Status Get(const pb::SyncState& in, SyncState* out) {
  GDF_RETURN_IF_ERROR(Get(in.tag(), &out->tag));
  GDF_RETURN_IF_ERROR(Get(in.target(), &out->target));
  GDF_RETURN_IF_ERROR(GetNodes("sync.sources", in.sources(), &out->sources));
  out->install = in.install();
  if (in.has_commit()) GDF_RETURN_IF_ERROR(Get(in.commit(), &out->commit.emplace()));
  out->verify = in.verify();
  return absl::OkStatus();
}

absl::Status Get(const pb::RoundPlan& in, RoundPlan* out) {
  GDF_RETURN_IF_ERROR(Get(in.tag(), &out->tag));
  GDF_RETURN_IF_ERROR(Get("plan.start_theta", in.start_theta(), &out->start_theta));
  out->seed = in.seed();
  out->from_step = in.from_step();
  out->until_step = in.until_step();
  if (out->until_step > kMaxRounds || out->from_step > out->until_step) {
    return Bad("plan.until_step", "is out of range");
  }
  out->member_index = in.member_index();
  out->num_members = in.num_members();
  if (out->num_members > kMaxRoundMembers || out->member_index >= out->num_members) {
    return Bad("plan.member_index", "is out of range");
  }
  GDF_RETURN_IF_ERROR(GetCodec("plan.codec", in.codec(), &out->codec));
  GDF_RETURN_IF_ERROR(Get(in.cursor(), &out->cursor));
  return GetDeadline(in.deadline_us(), &out->deadline);
}

// No member has to hold more of the others' than twice what it would by equal shares.
absl::Status GetShares(const google::protobuf::RepeatedField<uint32_t>& in, uint64_t members,
                       std::vector<uint32_t>* out) {
  if (in.empty()) return absl::OkStatus();
  if (static_cast<uint64_t>(in.size()) != members) return Bad("exchange.shares", "are not one a member");
  uint64_t sum = 0;
  for (const uint32_t share : in) {
    if (share * members > 2 * uint64_t{kSharesWhole}) return Bad("exchange.shares", "give a member too much");
    sum += share;
    out->push_back(share);
  }
  return sum == kSharesWhole ? absl::OkStatus() : Bad("exchange.shares", "do not add up to the whole");
}

absl::Status Get(const pb::ExchangeStart& in, ExchangeStart* out) {
  GDF_RETURN_IF_ERROR(Get(in.tag(), &out->tag));
  GDF_RETURN_IF_ERROR(GetContributions(in.members(), &out->members));
  if (in.resumes() >= in.tag().attempt() && in.resumes() != 0)
    return Bad("exchange.resumes", "is not an earlier attempt");
  out->resumes = in.resumes();
  GDF_RETURN_IF_ERROR(GetNodes("exchange.lost", in.lost(), &out->lost));
  if (!out->lost.empty() && out->resumes == 0)
    return Bad("exchange.lost", "comes with an exchange that begins");
  for (const NodeId& lost : out->lost) {
    const auto it = std::find_if(out->members.begin(), out->members.end(),
                                 [&](const Contribution& c) { return c.node == lost; });
    if (it == out->members.end()) return Bad("exchange.lost", "names a node that is no member");
    if (it->tokens != 0) return Bad("exchange.lost", "names a node with tokens");
  }
  GDF_RETURN_IF_ERROR(GetShares(in.shares(), out->members.size(), &out->shares));
  GDF_RETURN_IF_ERROR(GetCodec("exchange.codec", in.codec(), &out->codec));
  if (!in.first_pass().empty()) GDF_RETURN_IF_ERROR(Get("exchange.first_pass", in.first_pass(), &out->first_pass.emplace()));
  if (!in.sites().empty() && static_cast<size_t>(in.sites_size()) != out->members.size()) {
    return Bad("exchange.sites", "are not one a member");
  }
  out->sites.assign(in.sites().begin(), in.sites().end());
  GDF_RETURN_IF_ERROR(GetNodes("exchange.left_out", in.left_out(), &out->left_out));
  return GetDeadline(in.deadline_us(), &out->deadline);
}

absl::Status Get(const pb::CommitRound& in, CommitRound* out) {
  GDF_RETURN_IF_ERROR(Get(in.tag(), &out->tag));
  return Get(in.commit(), &out->commit);
}

absl::Status Get(const pb::Abort& in, Abort* out) {
  GDF_RETURN_IF_ERROR(Get(in.tag(), &out->tag));
  GDF_RETURN_IF_ERROR(GetNodes("abort.lost", in.lost(), &out->lost));
  return GetReason("abort.reason", in.reason(), &out->reason);
}

absl::Status Get(const pb::EndJob& in, EndJob* out) {
  GDF_RETURN_IF_ERROR(Get(in.tag(), &out->tag));
  return GetReason("end.failure", in.failure(), &out->failure);
}

absl::Status Get(const pb::EnterReply& in, EnterReply* out) {
  GDF_RETURN_IF_ERROR(Get(in.committed(), &out->committed));
  if (in.has_commit()) GDF_RETURN_IF_ERROR(Get(in.commit(), &out->commit.emplace()));
  if (in.has_prepared()) GDF_RETURN_IF_ERROR(Get(in.prepared(), &out->prepared.emplace()));
  if (in.has_previous()) GDF_RETURN_IF_ERROR(Get(in.previous(), &out->previous.emplace()));
  out->num_params = in.num_params();
  out->last_attempt = in.last_attempt();
  return absl::OkStatus();
}

absl::Status Get(const pb::RoundReport& in, RoundReport* out) {
  GDF_RETURN_IF_ERROR(Get(in.tag(), &out->tag));
  GDF_RETURN_IF_ERROR(GetReason("report.refused", in.refused(), &out->refused));
  if (in.tokens() > kMaxRoundTokens) return Bad("report.tokens", "is out of range");
  out->tokens = in.tokens();
  out->steps = in.steps();
  GDF_RETURN_IF_ERROR(GetFigure("report.mean_loss", in.mean_loss(), &out->mean_loss));
  GDF_RETURN_IF_ERROR(GetFigure("report.delta_norm", in.delta_norm(), &out->delta_norm));
  GDF_RETURN_IF_ERROR(GetFigure("report.train_seconds", in.train_seconds(), &out->train_seconds));
  GDF_RETURN_IF_ERROR(
      GetFigure("report.compress_seconds", in.compress_seconds(), &out->compress_seconds));
  GDF_RETURN_IF_ERROR(Get(in.cursor(), &out->cursor));
  out->at_fault = in.at_fault();
  return Get("report.packed", in.packed(), &out->packed);
}

absl::Status Get(const pb::LinkFigures& in, LinkFigures* out) {
  const auto bounded = [](uint64_t rate) { return rate <= kMaxRate; };
  if (!bounded(in.up_bytes_per_sec()) || !bounded(in.down_bytes_per_sec()) || !bounded(in.values_per_sec())) {
    return Bad("prepared.link", "has a rate out of range");
  }
  if (in.rtt_us() < 0 || in.rtt_us() > absl::ToInt64Microseconds(kMaxRtt)) {
    return Bad("prepared.link", "has a round-trip time out of range");
  }
  *out = {in.up_bytes_per_sec(), in.down_bytes_per_sec(), absl::Microseconds(in.rtt_us()), in.values_per_sec()};
  return GetNodes("prepared.link.near", in.near(), &out->near);
}

absl::Status Get(const pb::Prepared& in, Prepared* out) {
  GDF_RETURN_IF_ERROR(Get(in.tag(), &out->tag));
  GDF_RETURN_IF_ERROR(Get(in.result(), &out->result));
  GDF_RETURN_IF_ERROR(GetNodes("prepared.lost", in.lost(), &out->lost));
  GDF_RETURN_IF_ERROR(GetReason("prepared.failure", in.failure(), &out->failure));
  GDF_RETURN_IF_ERROR(
      GetFigure("prepared.exchange_seconds", in.exchange_seconds(), &out->exchange_seconds));
  GDF_RETURN_IF_ERROR(
      GetFigure("prepared.aggregate_seconds", in.aggregate_seconds(), &out->aggregate_seconds));
  out->payload_sent = in.payload_sent();
  out->payload_received = in.payload_received();
  GDF_RETURN_IF_ERROR(GetOptional("prepared.fragment", in.fragment(), &out->fragment));
  return Get(in.link(), &out->link);
}

template <typename Message>
absl::StatusOr<Message> Parse(std::string_view what, absl::Span<const uint8_t> bytes) {
  return ParseMessage<Message>(AsString(bytes), what, kMaxMessageBytes);
}

// Parses `bytes` as the protobuf Message and converts it to the domain value.
template <typename Message, typename Value>
absl::StatusOr<Value> Decode(std::string_view what, absl::Span<const uint8_t> bytes) {
  GDF_ASSIGN_OR_RETURN(const Message message, Parse<Message>(what, bytes));
  Value value;
  GDF_RETURN_IF_ERROR(Get(message, &value));
  return value;
}

template <typename Value, typename Message, typename Variant>
absl::StatusOr<Variant> As(const Message& in) {
  Value value;
  GDF_RETURN_IF_ERROR(Get(in, &value));
  return Variant(std::move(value));
}

}  // namespace

absl::StatusOr<RoundRequest> DecodeRoundRequest(absl::Span<const uint8_t> bytes) {
  GDF_ASSIGN_OR_RETURN(const pb::RoundRequest in, Parse<pb::RoundRequest>("request", bytes));
  switch (in.request_case()) {
    case pb::RoundRequest::kEnter:
      return As<Enter, pb::Enter, RoundRequest>(in.enter());
    case pb::RoundRequest::kSyncState:
      return As<SyncState, pb::SyncState, RoundRequest>(in.sync_state());
    case pb::RoundRequest::kPlan:
      return As<RoundPlan, pb::RoundPlan, RoundRequest>(in.plan());
    case pb::RoundRequest::kExchange:
      return As<ExchangeStart, pb::ExchangeStart, RoundRequest>(in.exchange());
    case pb::RoundRequest::kPropose: {
      Propose propose;
      GDF_RETURN_IF_ERROR(Get(in.propose().receipt(), &propose.receipt));
      return RoundRequest(std::move(propose));
    }
    case pb::RoundRequest::kCommit:
      return As<CommitRound, pb::CommitRound, RoundRequest>(in.commit());
    case pb::RoundRequest::kAbort:
      return As<Abort, pb::Abort, RoundRequest>(in.abort());
    case pb::RoundRequest::kEnd:
      return As<EndJob, pb::EndJob, RoundRequest>(in.end());
    case pb::RoundRequest::REQUEST_NOT_SET:
      break;
  }
  return Bad("request", "is of no known kind");
}

absl::StatusOr<RoundReply> DecodeRoundReply(absl::Span<const uint8_t> bytes) {
  GDF_ASSIGN_OR_RETURN(const pb::RoundReply in, Parse<pb::RoundReply>("reply", bytes));
  switch (in.reply_case()) {
    case pb::RoundReply::kEnter:
      return As<EnterReply, pb::EnterReply, RoundReply>(in.enter());
    case pb::RoundReply::kReport:
      return As<RoundReport, pb::RoundReport, RoundReply>(in.report());
    case pb::RoundReply::kPrepared:
      return As<Prepared, pb::Prepared, RoundReply>(in.prepared());
    case pb::RoundReply::kSignature: {
      Signed reply;
      GDF_RETURN_IF_ERROR(Get(in.signature().signature(), &reply.signature));
      return RoundReply(reply);
    }
    case pb::RoundReply::kDone:
      return RoundReply(Done{in.done().bytes_sent(), in.done().bytes_received()});
    case pb::RoundReply::REPLY_NOT_SET:
      break;
  }
  return Bad("reply", "is of no known kind");
}

absl::StatusOr<ExchangeHello> DecodeExchangeHello(absl::Span<const uint8_t> bytes) {
  GDF_ASSIGN_OR_RETURN(const pb::ExchangeHello in, Parse<pb::ExchangeHello>("exchange hello", bytes));
  ExchangeHello hello;
  GDF_RETURN_IF_ERROR(Get(in.tag(), &hello.tag));
  if (in.shard() >= kMaxRoundMembers) return Bad("hello.shard", "is out of range");
  hello.shard = in.shard();
  hello.num_params = in.num_params();
  hello.contributes = in.contributes();
  if (in.held().size() > kMaxHeldBytes) return Bad("hello.held", "is too long");
  hello.held = in.held();
  return hello;
}

absl::StatusOr<ExchangeHeld> DecodeExchangeHeld(absl::Span<const uint8_t> bytes) {
  GDF_ASSIGN_OR_RETURN(const pb::ExchangeHeld in, Parse<pb::ExchangeHeld>("exchange held", bytes));
  if (in.held().size() > kMaxHeldBytes) return Bad("held", "is too long");
  return ExchangeHeld{in.held()};
}

absl::StatusOr<FetchState> DecodeFetchState(absl::Span<const uint8_t> bytes) {
  GDF_ASSIGN_OR_RETURN(const pb::FetchState in, Parse<pb::FetchState>("fetch", bytes));
  if (in.job() == 0) return Bad("fetch.job", "is 0");
  FetchState fetch;
  fetch.job = JobId{in.job()};
  GDF_RETURN_IF_ERROR(Get(in.state(), &fetch.state));
  return fetch;
}

absl::StatusOr<FetchLeaves> DecodeFetchLeaves(absl::Span<const uint8_t> bytes) {
  GDF_ASSIGN_OR_RETURN(const pb::FetchLeaves in, Parse<pb::FetchLeaves>("leaves", bytes));
  if (in.count() > kMaxLeavesAsked) return Bad("leaves.count", "is out of range");
  return FetchLeaves{in.first(), in.count()};
}

absl::StatusOr<Commit> DecodeCommit(absl::Span<const uint8_t> bytes) {
  return Decode<pb::Commit, Commit>("commit", bytes);
}
absl::StatusOr<Receipt> DecodeReceipt(absl::Span<const uint8_t> bytes) {
  return Decode<pb::Receipt, Receipt>("receipt", bytes);
}
absl::StatusOr<EpochRecord> DecodeEpochRecord(absl::Span<const uint8_t> bytes) {
  return Decode<pb::EpochRecord, EpochRecord>("epoch record", bytes);
}

}  // namespace gdf::wire
