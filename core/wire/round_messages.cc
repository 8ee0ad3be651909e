#include "core/wire/round_messages.h"

#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/encoding.h"
#include "core/base/status_macros.h"
#include "proto/round.pb.h"

namespace gdf::wire {
namespace {

namespace pb = ::gdf::round::v1;

constexpr size_t kMaxMessageBytes = size_t{1} << 20;
constexpr absl::Duration kMaxDeadline = absl::Hours(24 * 30);
constexpr double kMaxFigure = 1e30;

absl::Status Bad(std::string_view field, std::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("round message: ", std::string(field), " ", std::string(what)));
}

// --- To protobuf ---

void Put(const Digest& digest, std::string* out) { out->assign(AsString(digest.span())); }
void Put(const NodeId& node, std::string* out) { Put(node.digest(), out); }

void Put(const RoundTag& tag, pb::Tag* out) {
  out->set_job(tag.job.value);
  out->set_epoch(tag.epoch.value);
  out->set_round(tag.round.value);
  out->set_attempt(tag.attempt);
}

void Put(const EpochRecord& record, pb::EpochRecord* out) {
  out->set_epoch(record.epoch.value);
  Put(record.lead, out->mutable_lead());
  for (const NodeId& node : record.members) Put(node, out->add_members());
}

void Put(const DataCursor& cursor, pb::Cursor* out) {
  out->set_epoch(cursor.epoch);
  out->set_position(cursor.position);
}

void Put(const StateId& state, pb::StateId* out) {
  out->set_round(state.round.value);
  Put(state.theta, out->mutable_theta());
  Put(state.momentum, out->mutable_momentum());
  Put(state.cursor, out->mutable_cursor());
}

void Put(const Contribution& contribution, pb::Contribution* out) {
  Put(contribution.node, out->mutable_node());
  out->set_tokens(contribution.tokens);
}

void Put(const Receipt& receipt, pb::Receipt* out) {
  Put(receipt.tag, out->mutable_tag());
  for (const NodeId& node : receipt.voters) Put(node, out->add_voters());
  for (const Contribution& c : receipt.contributions) Put(c, out->add_contributions());
  Put(receipt.start_theta, out->mutable_start_theta());
  Put(receipt.result, out->mutable_result());
}

void Put(const NodeSignature& signature, pb::NodeSignature* out) {
  out->mutable_public_key()->assign(AsString(signature.public_key));
  out->mutable_signature()->assign(AsString(signature.signature));
}

void Put(const Commit& commit, pb::Commit* out) {
  Put(commit.receipt, out->mutable_receipt());
  for (const NodeSignature& s : commit.signatures) Put(s, out->add_signatures());
}

struct RequestWriter {
  pb::RoundRequest& out;
  void operator()(const Enter& in) {
    out.mutable_enter()->set_job(in.job.value);
    Put(in.epoch, out.mutable_enter()->mutable_epoch());
  }
  void operator()(const SyncState& in) {
    pb::SyncState* sync = out.mutable_sync_state();
    Put(in.tag, sync->mutable_tag());
    Put(in.target, sync->mutable_target());
    Put(in.source, sync->mutable_source());
    sync->set_install(in.install);
    if (in.commit) Put(*in.commit, sync->mutable_commit());
  }
  void operator()(const RoundPlan& in) {
    pb::RoundPlan* plan = out.mutable_plan();
    Put(in.tag, plan->mutable_tag());
    Put(in.start_theta, plan->mutable_start_theta());
    plan->set_seed(in.seed);
    plan->set_from_step(in.from_step);
    plan->set_until_step(in.until_step);
    plan->set_member_index(in.member_index);
    plan->set_num_members(in.num_members);
    Put(in.cursor, plan->mutable_cursor());
    plan->set_deadline_us(absl::ToInt64Microseconds(in.deadline));
  }
  void operator()(const ExchangeStart& in) {
    pb::ExchangeStart* start = out.mutable_exchange();
    Put(in.tag, start->mutable_tag());
    for (const Contribution& c : in.members) Put(c, start->add_members());
    start->set_deadline_us(absl::ToInt64Microseconds(in.deadline));
  }
  void operator()(const Propose& in) { Put(in.receipt, out.mutable_propose()->mutable_receipt()); }
  void operator()(const CommitRound& in) {
    Put(in.tag, out.mutable_commit()->mutable_tag());
    Put(in.commit, out.mutable_commit()->mutable_commit());
  }
  void operator()(const Abort& in) {
    Put(in.tag, out.mutable_abort()->mutable_tag());
    out.mutable_abort()->set_reason(in.reason.substr(0, kMaxReasonBytes));
  }
  void operator()(const EndJob& in) {
    Put(in.tag, out.mutable_end()->mutable_tag());
    out.mutable_end()->set_failure(in.failure.substr(0, kMaxReasonBytes));
  }
};

struct ReplyWriter {
  pb::RoundReply& out;
  void operator()(const EnterReply& in) {
    pb::EnterReply* reply = out.mutable_enter();
    Put(in.committed, reply->mutable_committed());
    if (in.commit) Put(*in.commit, reply->mutable_commit());
    if (in.prepared) Put(*in.prepared, reply->mutable_prepared());
    if (in.previous) Put(*in.previous, reply->mutable_previous());
    reply->set_num_params(in.num_params);
    reply->set_last_attempt(in.last_attempt);
  }
  void operator()(const RoundReport& in) {
    pb::RoundReport* report = out.mutable_report();
    Put(in.tag, report->mutable_tag());
    report->set_refused(in.refused.substr(0, kMaxReasonBytes));
    report->set_tokens(in.tokens);
    report->set_steps(in.steps);
    report->set_mean_loss(in.mean_loss);
    report->set_delta_norm(in.delta_norm);
    report->set_train_seconds(in.train_seconds);
    report->set_compress_seconds(in.compress_seconds);
    Put(in.cursor, report->mutable_cursor());
    Put(in.packed, report->mutable_packed());
  }
  void operator()(const Prepared& in) {
    pb::Prepared* prepared = out.mutable_prepared();
    Put(in.tag, prepared->mutable_tag());
    Put(in.result, prepared->mutable_result());
    for (const NodeId& node : in.lost) Put(node, prepared->add_lost());
    prepared->set_failure(in.failure.substr(0, kMaxReasonBytes));
    prepared->set_exchange_seconds(in.exchange_seconds);
    prepared->set_aggregate_seconds(in.aggregate_seconds);
    prepared->set_payload_sent(in.payload_sent);
    prepared->set_payload_received(in.payload_received);
  }
  void operator()(const Signed& in) { Put(in.signature, out.mutable_signature()->mutable_signature()); }
  void operator()(const Done& in) {
    out.mutable_done()->set_bytes_sent(in.bytes_sent);
    out.mutable_done()->set_bytes_received(in.bytes_received);
  }
};

// --- From protobuf ---

absl::Status Get(std::string_view field, const std::string& in, Digest* out) {
  auto digest = Digest::FromBytes(in);
  if (!digest.ok()) return Bad(field, digest.status().message().data());
  *out = *digest;
  return absl::OkStatus();
}

absl::Status Get(std::string_view field, const std::string& in, NodeId* out) {
  Digest digest;
  GDF_RETURN_IF_ERROR(Get(field, in, &digest));
  *out = NodeId(digest);
  return absl::OkStatus();
}

absl::Status GetNodes(std::string_view field, const google::protobuf::RepeatedPtrField<std::string>& in,
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
  if (static_cast<size_t>(in.size()) > kMaxRoundMembers) return Bad("contributions", "are too many");
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

absl::Status Get(const pb::Receipt& in, Receipt* out) {
  GDF_RETURN_IF_ERROR(Get(in.tag(), &out->tag));
  GDF_RETURN_IF_ERROR(GetNodes("receipt.voters", in.voters(), &out->voters));
  GDF_RETURN_IF_ERROR(GetContributions(in.contributions(), &out->contributions));
  GDF_RETURN_IF_ERROR(Get("receipt.start_theta", in.start_theta(), &out->start_theta));
  GDF_RETURN_IF_ERROR(Get(in.result(), &out->result));
  if (out->result.round != out->tag.round.next()) return Bad("receipt.result", "is not of the next round");
  if (out->voters.empty()) return Bad("receipt.voters", "are missing");
  return absl::OkStatus();
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
  if (in.size() > kMaxReasonBytes) return Bad(field, "is too long");
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
  GDF_RETURN_IF_ERROR(Get("sync.source", in.source(), &out->source));
  out->install = in.install();
  if (in.has_commit()) GDF_RETURN_IF_ERROR(Get(in.commit(), &out->commit.emplace()));
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
  GDF_RETURN_IF_ERROR(Get(in.cursor(), &out->cursor));
  return GetDeadline(in.deadline_us(), &out->deadline);
}

absl::Status Get(const pb::ExchangeStart& in, ExchangeStart* out) {
  GDF_RETURN_IF_ERROR(Get(in.tag(), &out->tag));
  GDF_RETURN_IF_ERROR(GetContributions(in.members(), &out->members));
  return GetDeadline(in.deadline_us(), &out->deadline);
}

absl::Status Get(const pb::CommitRound& in, CommitRound* out) {
  GDF_RETURN_IF_ERROR(Get(in.tag(), &out->tag));
  return Get(in.commit(), &out->commit);
}

absl::Status Get(const pb::Abort& in, Abort* out) {
  GDF_RETURN_IF_ERROR(Get(in.tag(), &out->tag));
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
  GDF_RETURN_IF_ERROR(GetFigure("report.compress_seconds", in.compress_seconds(), &out->compress_seconds));
  GDF_RETURN_IF_ERROR(Get(in.cursor(), &out->cursor));
  return Get("report.packed", in.packed(), &out->packed);
}

absl::Status Get(const pb::Prepared& in, Prepared* out) {
  GDF_RETURN_IF_ERROR(Get(in.tag(), &out->tag));
  GDF_RETURN_IF_ERROR(Get(in.result(), &out->result));
  GDF_RETURN_IF_ERROR(GetNodes("prepared.lost", in.lost(), &out->lost));
  GDF_RETURN_IF_ERROR(GetReason("prepared.failure", in.failure(), &out->failure));
  GDF_RETURN_IF_ERROR(GetFigure("prepared.exchange_seconds", in.exchange_seconds(), &out->exchange_seconds));
  GDF_RETURN_IF_ERROR(GetFigure("prepared.aggregate_seconds", in.aggregate_seconds(), &out->aggregate_seconds));
  out->payload_sent = in.payload_sent();
  out->payload_received = in.payload_received();
  return absl::OkStatus();
}

template <typename Message>
absl::Status Parse(std::string_view what, absl::Span<const uint8_t> bytes, Message* out) {
  if (bytes.size() > kMaxMessageBytes) return Bad(what, "is larger than 1 MiB");
  if (!out->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Bad(what, "is not well-formed");
  }
  return absl::OkStatus();
}

// Parses `bytes` as the protobuf Message and converts it to the domain value.
template <typename Message, typename Value>
absl::StatusOr<Value> Decode(std::string_view what, absl::Span<const uint8_t> bytes) {
  Message message;
  GDF_RETURN_IF_ERROR(Parse(what, bytes, &message));
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

template <typename Message, typename Value>
std::string Encode(const Value& value) {
  Message message;
  Put(value, &message);
  return message.SerializeAsString();
}

}  // namespace

Buffer EncodeRoundRequest(const RoundRequest& request) {
  pb::RoundRequest message;
  std::visit(RequestWriter{message}, request);
  return Buffer(message.SerializeAsString());
}

Buffer EncodeRoundReply(const RoundReply& reply) {
  pb::RoundReply message;
  std::visit(ReplyWriter{message}, reply);
  return Buffer(message.SerializeAsString());
}

Buffer EncodeExchangeHello(const ExchangeHello& hello) {
  pb::ExchangeHello message;
  Put(hello.tag, message.mutable_tag());
  message.set_shard(hello.shard);
  message.set_num_params(hello.num_params);
  message.set_contributes(hello.contributes);
  return Buffer(message.SerializeAsString());
}

Buffer EncodeFetchState(const FetchState& fetch) {
  pb::FetchState message;
  message.set_job(fetch.job.value);
  Put(fetch.state, message.mutable_state());
  return Buffer(message.SerializeAsString());
}

std::string EncodeCommit(const Commit& commit) { return Encode<pb::Commit>(commit); }
std::string EncodeReceipt(const Receipt& receipt) { return Encode<pb::Receipt>(receipt); }
std::string EncodeEpochRecord(const EpochRecord& record) { return Encode<pb::EpochRecord>(record); }

absl::StatusOr<RoundRequest> DecodeRoundRequest(absl::Span<const uint8_t> bytes) {
  pb::RoundRequest in;
  GDF_RETURN_IF_ERROR(Parse("request", bytes, &in));
  switch (in.request_case()) {
    case pb::RoundRequest::kEnter: return As<Enter, pb::Enter, RoundRequest>(in.enter());
    case pb::RoundRequest::kSyncState:
      return As<SyncState, pb::SyncState, RoundRequest>(in.sync_state());
    case pb::RoundRequest::kPlan: return As<RoundPlan, pb::RoundPlan, RoundRequest>(in.plan());
    case pb::RoundRequest::kExchange:
      return As<ExchangeStart, pb::ExchangeStart, RoundRequest>(in.exchange());
    case pb::RoundRequest::kPropose: {
      Propose propose;
      GDF_RETURN_IF_ERROR(Get(in.propose().receipt(), &propose.receipt));
      return RoundRequest(std::move(propose));
    }
    case pb::RoundRequest::kCommit: return As<CommitRound, pb::CommitRound, RoundRequest>(in.commit());
    case pb::RoundRequest::kAbort: return As<Abort, pb::Abort, RoundRequest>(in.abort());
    case pb::RoundRequest::kEnd: return As<EndJob, pb::EndJob, RoundRequest>(in.end());
    case pb::RoundRequest::REQUEST_NOT_SET: break;
  }
  return Bad("request", "is of no known kind");
}

absl::StatusOr<RoundReply> DecodeRoundReply(absl::Span<const uint8_t> bytes) {
  pb::RoundReply in;
  GDF_RETURN_IF_ERROR(Parse("reply", bytes, &in));
  switch (in.reply_case()) {
    case pb::RoundReply::kEnter: return As<EnterReply, pb::EnterReply, RoundReply>(in.enter());
    case pb::RoundReply::kReport: return As<RoundReport, pb::RoundReport, RoundReply>(in.report());
    case pb::RoundReply::kPrepared: return As<Prepared, pb::Prepared, RoundReply>(in.prepared());
    case pb::RoundReply::kSignature: {
      Signed reply;
      GDF_RETURN_IF_ERROR(Get(in.signature().signature(), &reply.signature));
      return RoundReply(reply);
    }
    case pb::RoundReply::kDone: return RoundReply(Done{in.done().bytes_sent(), in.done().bytes_received()});
    case pb::RoundReply::REPLY_NOT_SET: break;
  }
  return Bad("reply", "is of no known kind");
}

absl::StatusOr<ExchangeHello> DecodeExchangeHello(absl::Span<const uint8_t> bytes) {
  pb::ExchangeHello in;
  GDF_RETURN_IF_ERROR(Parse("exchange hello", bytes, &in));
  ExchangeHello hello;
  GDF_RETURN_IF_ERROR(Get(in.tag(), &hello.tag));
  if (in.shard() >= kMaxRoundMembers) return Bad("hello.shard", "is out of range");
  hello.shard = in.shard();
  hello.num_params = in.num_params();
  hello.contributes = in.contributes();
  return hello;
}

absl::StatusOr<FetchState> DecodeFetchState(absl::Span<const uint8_t> bytes) {
  pb::FetchState in;
  GDF_RETURN_IF_ERROR(Parse("fetch", bytes, &in));
  FetchState fetch;
  fetch.job = JobId{in.job()};
  GDF_RETURN_IF_ERROR(Get(in.state(), &fetch.state));
  return fetch;
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
