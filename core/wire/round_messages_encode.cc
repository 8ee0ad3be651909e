#include "core/base/encoding.h"
#include "core/base/name.h"
#include "core/wire/round_messages.h"
#include "proto/round.pb.h"

namespace gdf::wire {
namespace {

namespace pb = ::gdf::round::v1;

void Put(const Digest& digest, std::string* out) { out->assign(AsString(digest.span())); }
void Put(const NodeId& node, std::string* out) { Put(node.digest(), out); }

void PutOptional(const Digest& digest, std::string* out) {
  if (!digest.zero()) Put(digest, out);
}

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
  out->set_codec(receipt.codec);
  out->set_next_codec(receipt.next_codec);
  PutOptional(receipt.fragment, out->mutable_fragment());
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
    for (const NodeId& node : in.sources) Put(node, sync->add_sources());
    sync->set_install(in.install);
    if (in.commit) Put(*in.commit, sync->mutable_commit());
    sync->set_verify(in.verify);
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
    plan->set_codec(in.codec);
    plan->set_deadline_us(absl::ToInt64Microseconds(in.deadline));
  }
  void operator()(const ExchangeStart& in) {
    pb::ExchangeStart* start = out.mutable_exchange();
    Put(in.tag, start->mutable_tag());
    for (const Contribution& c : in.members) Put(c, start->add_members());
    start->set_deadline_us(absl::ToInt64Microseconds(in.deadline));
    start->set_resumes(in.resumes);
    for (const NodeId& node : in.lost) Put(node, start->add_lost());
    for (const uint32_t share : in.shares) start->add_shares(share);
    start->set_codec(in.codec);
    if (in.first_pass) Put(*in.first_pass, start->mutable_first_pass());
    for (const uint32_t site : in.sites) start->add_sites(site);
    for (const NodeId& node : in.left_out) Put(node, start->add_left_out());
  }
  void operator()(const Propose& in) { Put(in.receipt, out.mutable_propose()->mutable_receipt()); }
  void operator()(const CommitRound& in) {
    Put(in.tag, out.mutable_commit()->mutable_tag());
    Put(in.commit, out.mutable_commit()->mutable_commit());
  }
  void operator()(const Abort& in) {
    Put(in.tag, out.mutable_abort()->mutable_tag());
    out.mutable_abort()->set_reason(SafeText(in.reason, kMaxReasonBytes));
    for (const NodeId& node : in.lost) Put(node, out.mutable_abort()->add_lost());
  }
  void operator()(const EndJob& in) {
    Put(in.tag, out.mutable_end()->mutable_tag());
    out.mutable_end()->set_failure(SafeText(in.failure, kMaxReasonBytes));
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
    report->set_refused(SafeText(in.refused, kMaxReasonBytes));
    report->set_tokens(in.tokens);
    report->set_steps(in.steps);
    report->set_mean_loss(in.mean_loss);
    report->set_delta_norm(in.delta_norm);
    report->set_train_seconds(in.train_seconds);
    report->set_compress_seconds(in.compress_seconds);
    Put(in.cursor, report->mutable_cursor());
    Put(in.packed, report->mutable_packed());
    report->set_at_fault(in.at_fault);
  }
  void operator()(const Prepared& in) {
    pb::Prepared* prepared = out.mutable_prepared();
    Put(in.tag, prepared->mutable_tag());
    Put(in.result, prepared->mutable_result());
    for (const NodeId& node : in.lost) Put(node, prepared->add_lost());
    prepared->set_failure(SafeText(in.failure, kMaxReasonBytes));
    prepared->set_exchange_seconds(in.exchange_seconds);
    prepared->set_aggregate_seconds(in.aggregate_seconds);
    prepared->set_payload_sent(in.payload_sent);
    prepared->set_payload_received(in.payload_received);
    prepared->mutable_link()->set_up_bytes_per_sec(in.link.up_bytes_per_sec);
    prepared->mutable_link()->set_down_bytes_per_sec(in.link.down_bytes_per_sec);
    prepared->mutable_link()->set_rtt_us(absl::ToInt64Microseconds(in.link.rtt));
    prepared->mutable_link()->set_values_per_sec(in.link.values_per_sec);
    for (const NodeId& node : in.link.near) Put(node, prepared->mutable_link()->add_near());
    PutOptional(in.fragment, prepared->mutable_fragment());
  }
  void operator()(const Signed& in) {
    Put(in.signature, out.mutable_signature()->mutable_signature());
  }
  void operator()(const Done& in) {
    out.mutable_done()->set_bytes_sent(in.bytes_sent);
    out.mutable_done()->set_bytes_received(in.bytes_received);
  }
};

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
  message.set_held(hello.held);
  return Buffer(message.SerializeAsString());
}

Buffer EncodeExchangeHeld(const ExchangeHeld& held) {
  pb::ExchangeHeld message;
  message.set_held(held.held);
  return Buffer(message.SerializeAsString());
}

Buffer EncodeFetchState(const FetchState& fetch) {
  pb::FetchState message;
  message.set_job(fetch.job.value);
  Put(fetch.state, message.mutable_state());
  return Buffer(message.SerializeAsString());
}

Buffer EncodeFetchLeaves(const FetchLeaves& fetch) {
  pb::FetchLeaves message;
  message.set_first(fetch.first);
  message.set_count(fetch.count);
  return Buffer(message.SerializeAsString());
}

std::string EncodeCommit(const Commit& commit) { return Encode<pb::Commit>(commit); }
std::string EncodeReceipt(const Receipt& receipt) { return Encode<pb::Receipt>(receipt); }
std::string EncodeEpochRecord(const EpochRecord& record) { return Encode<pb::EpochRecord>(record); }

}  // namespace gdf::wire
