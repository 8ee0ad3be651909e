#include "core/wire/round_messages.h"

#include <catch2/catch.hpp>
#include <functional>
#include <limits>

#include "core/base/encoding.h"
#include "proto/round.pb.h"

namespace gdf::wire {
namespace {

namespace pb = ::gdf::round::v1;

NodeId Node(std::string_view name) { return NodeId(HashBytes(name)); }

RoundTag Tag() { return {JobId{3}, Epoch{2}, RoundId{17}, 2}; }

StateId StateOf(uint64_t round) {
  return {RoundId{round}, HashBytes("theta"), HashBytes("momentum"), {4, 5}};
}

Receipt ReceiptOf() {
  return {Tag(),
          {Node("a"), Node("b")},
          {{Node("a"), 100}, {Node("b"), 0}},
          HashBytes("start"),
          StateOf(18),
          0,
          0,
          HashBytes("fragment")};
}

Commit CommitOf() {
  NodeSignature signature;
  signature.public_key.fill(7);
  signature.signature.fill(9);
  return {ReceiptOf(), {signature}};
}

EpochRecord EpochOf() { return {Epoch{2}, Node("b"), {Node("a"), Node("b")}}; }

// One of each kind, with every field set.
std::vector<RoundRequest> Requests() {
  return {
      Enter{JobId{3}, EpochOf()},
      SyncState{Tag(), StateOf(17), {Node("a"), Node("b")}, true, CommitOf(), true},
      RoundPlan{Tag(), HashBytes("start"), ~uint64_t{0}, 50, 100, 1, 2, {4, 5}, absl::Seconds(90)},
      ExchangeStart{
          Tag(), {{Node("a"), 100}, {Node("b"), 0}}, absl::Milliseconds(1), 1, {Node("b")}, {65536, 0}, 0, HashBytes("first"), {7, 0}, {Node("b")}},
      Propose{ReceiptOf()},
      CommitRound{Tag(), CommitOf()},
      Abort{Tag(), "θ differs", {Node("c")}},
      EndJob{Tag(), "no data"}};
}

std::vector<RoundReply> Replies() {
  return {EnterReply{StateOf(17), CommitOf(), ReceiptOf(), EpochOf(), 1'000'000, 4},
          RoundReport{Tag(), "NaN", 1000, 50, 2.5, 0.1, 3.5, 0.25, {4, 5}, HashBytes("packed"), true},
          Prepared{Tag(), StateOf(18), {Node("c")}, "late", 0.5, 0.25, 10, 20, {1000, 2000, absl::Milliseconds(30), 4000, {Node("d")}}, HashBytes("fragment")},
          Signed{CommitOf().signatures[0]}, Done{1, 2}};
}

template <typename Message>
absl::StatusOr<RoundRequest> DecodeAltered(const RoundRequest& request,
                                           Message* (pb::RoundRequest::*part)(),
                                           std::function<void(Message&)> change) {
  pb::RoundRequest message;
  REQUIRE(message.ParseFromString(std::string(EncodeRoundRequest(request).view())));
  change(*(message.*part)());
  return DecodeRoundRequest(AsBytes(message.SerializeAsString()));
}

template <typename Message>
absl::StatusOr<RoundReply> DecodeAltered(const RoundReply& reply,
                                         Message* (pb::RoundReply::*part)(),
                                         std::function<void(Message&)> change) {
  pb::RoundReply message;
  REQUIRE(message.ParseFromString(std::string(EncodeRoundReply(reply).view())));
  change(*(message.*part)());
  return DecodeRoundReply(AsBytes(message.SerializeAsString()));
}

template <typename T>
void Refused(const absl::StatusOr<T>& decoded, std::string_view field) {
  INFO(field << ": " << decoded.status());
  CHECK(decoded.status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(decoded.status().message()).find(field) != std::string::npos);
}

TEST_CASE("every round request and reply survives encoding, with all fields") {
  for (const RoundRequest& request : Requests()) {
    const auto decoded = DecodeRoundRequest(EncodeRoundRequest(request).span());
    INFO(request.index() << ": " << decoded.status());
    REQUIRE(decoded.ok());
    CHECK(*decoded == request);
  }
  for (const RoundReply& reply : Replies()) {
    const auto decoded = DecodeRoundReply(EncodeRoundReply(reply).span());
    INFO(reply.index() << ": " << decoded.status());
    REQUIRE(decoded.ok());
    CHECK(*decoded == reply);
  }
  const ExchangeHello hello{Tag(), 5, 1'000'000, true, "\x05"};
  const ExchangeHeld held{std::string("\xff\0", 2)};
  CHECK(*DecodeExchangeHeld(EncodeExchangeHeld(held).span()) == held);
  CHECK(*DecodeExchangeHello(EncodeExchangeHello(hello).span()) == hello);
  const FetchState fetch{JobId{3}, StateOf(17)};
  CHECK(*DecodeFetchState(EncodeFetchState(fetch).span()) == fetch);
  const FetchLeaves leaves{1000, 8};
  CHECK(*DecodeFetchLeaves(EncodeFetchLeaves(leaves).span()) == leaves);
  CHECK(*DecodeFetchLeaves({}) == FetchLeaves{});
  CHECK(*DecodeCommit(AsBytes(EncodeCommit(CommitOf()))) == CommitOf());
  CHECK(*DecodeReceipt(AsBytes(EncodeReceipt(ReceiptOf()))) == ReceiptOf());
  CHECK(*DecodeEpochRecord(AsBytes(EncodeEpochRecord(EpochOf()))) == EpochOf());
}

TEST_CASE("what may be absent in a round message stays absent") {
  const RoundRequest sync = SyncState{Tag(), StateOf(17), {}, false, std::nullopt};
  CHECK(*DecodeRoundRequest(EncodeRoundRequest(sync).span()) == sync);
  const RoundReply first = EnterReply{StateOf(0), std::nullopt, std::nullopt, std::nullopt, 7, 0};
  CHECK(*DecodeRoundReply(EncodeRoundReply(first).span()) == first);
  Receipt whole = ReceiptOf();
  whole.fragment = {};
  CHECK(*DecodeReceipt(AsBytes(EncodeReceipt(whole))) == whole);
}

TEST_CASE("a request's tag is found in each kind") {
  for (const RoundRequest& request : Requests()) {
    const bool enter = std::holds_alternative<Enter>(request);
    CHECK(TagOf(request) == (enter ? RoundTag{JobId{3}, Epoch{2}, RoundId{0}, 0} : Tag()));
  }
  CHECK(Tag().ToString() == "j3 epoch 2 round 18 attempt 2");
}

TEST_CASE("no prefix of a round message crashes its decoder or passes for a whole one") {
  for (const RoundRequest& request : Requests()) {
    const Buffer whole = EncodeRoundRequest(request);
    for (size_t n = 0; n < whole.size(); ++n) {
      const auto decoded = DecodeRoundRequest(whole.Slice(0, n).span());
      if (decoded.ok()) CHECK(*decoded != request);
    }
  }
  for (const RoundReply& reply : Replies()) {
    const Buffer whole = EncodeRoundReply(reply);
    for (size_t n = 0; n < whole.size(); ++n) {
      const auto decoded = DecodeRoundReply(whole.Slice(0, n).span());
      if (decoded.ok()) CHECK(*decoded != reply);
    }
  }
  Refused(DecodeRoundRequest({}), "request");
  Refused(DecodeRoundReply({}), "reply");
  Refused(DecodeRoundRequest(AsBytes("\xff\xff\xff\xff")), "request");
  Refused(DecodeRoundRequest(AsBytes(std::string((1 << 20) + 1, 'x'))), "at most 1048576 are allowed");
}

TEST_CASE("round requests out of bounds are refused by field") {
  using Request = pb::RoundRequest;
  const std::vector<RoundRequest> requests = Requests();
  const RoundRequest& plan = requests[2];
  const auto altered_plan = [&](std::function<void(pb::RoundPlan&)> change) {
    return DecodeAltered<pb::RoundPlan>(plan, &Request::mutable_plan, std::move(change));
  };
  Refused(altered_plan([](auto& m) { m.mutable_tag()->set_job(0); }), "tag.job");
  Refused(altered_plan([](auto& m) { m.mutable_tag()->set_round(kMaxRounds + 1); }), "tag.round");
  Refused(altered_plan([](auto& m) { m.set_start_theta("short"); }), "plan.start_theta");
  Refused(altered_plan([](auto& m) { m.set_from_step(101); }), "plan.until_step");
  Refused(altered_plan([](auto& m) { m.set_until_step(kMaxRounds + 1); }), "plan.until_step");
  Refused(altered_plan([](auto& m) { m.set_member_index(2); }), "plan.member_index");
  Refused(altered_plan([](auto& m) { m.set_num_members(kMaxRoundMembers + 1); }),
          "plan.member_index");
  Refused(altered_plan([](auto& m) { m.mutable_cursor()->set_position(-1); }), "cursor");
  for (const int64_t us : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    Refused(altered_plan([us](auto& m) { m.set_deadline_us(us); }), "deadline");
  }
  CHECK(altered_plan([](auto&) {}).ok());

  const auto altered_enter = [&](std::function<void(pb::Enter&)> change) {
    return DecodeAltered<pb::Enter>(requests[0], &Request::mutable_enter, std::move(change));
  };
  Refused(altered_enter([](auto& m) { m.set_job(0); }), "enter.job");
  Refused(altered_enter([](auto& m) { m.mutable_epoch()->set_epoch(0); }), "epoch");
  Refused(altered_enter([](auto& m) { m.mutable_epoch()->mutable_members()->RemoveLast(); }),
          "epoch.lead");
  Refused(altered_enter([](auto& m) { m.mutable_epoch()->add_members(m.epoch().lead()); }),
          "twice");
  Refused(altered_enter([](auto& m) {
            for (size_t i = 0; i < kMaxRoundMembers; ++i)
              m.mutable_epoch()->add_members(std::string(32, 'x'));
          }),
          "too many");

  const auto altered_exchange = [&](std::function<void(pb::ExchangeStart&)> change) {
    return DecodeAltered<pb::ExchangeStart>(requests[3], &Request::mutable_exchange,
                                            std::move(change));
  };
  Refused(altered_exchange([](auto& m) { m.mutable_members(0)->set_tokens(kMaxRoundTokens + 1); }),
          "contribution.tokens");
  Refused(altered_exchange([](auto& m) { m.mutable_members(0)->set_node(m.members(1).node()); }),
          "twice");
  Refused(altered_exchange([](auto& m) { m.set_first_pass("short"); }), "exchange.first_pass");
  Refused(altered_exchange([](auto& m) { m.set_resumes(m.tag().attempt()); }), "exchange.resumes");
  Refused(altered_exchange([](auto& m) { m.set_resumes(0); }), "exchange that begins");
  Refused(altered_exchange([](auto& m) { m.set_lost(0, m.members(0).node()); }),
          "node with tokens");
  Refused(altered_exchange([](auto& m) { m.set_lost(0, std::string(32, 'x')); }), "no member");
  Refused(altered_exchange([](auto& m) { m.add_shares(0); }), "not one a member");
  Refused(altered_exchange([](auto& m) { m.add_sites(0); }), "exchange.sites");
  Refused(altered_exchange([](auto& m) { m.set_shares(1, 1); }), "do not add up");
  Refused(altered_exchange([](auto& m) { m.set_shares(0, 65535); }), "do not add up");
  Refused(altered_exchange([](auto& m) { m.set_shares(0, ~uint32_t{0}); }), "too much");
  // Of three members two thirds for one.
  const auto three_shares = [&](uint32_t first) {
    return altered_exchange([first](auto& m) {
      m.add_members()->set_node(std::string(32, 'x'));
      m.set_shares(0, first);
      m.set_shares(1, kSharesWhole - first);
      m.add_shares(0);
      m.add_sites(0);
    });
  };
  CHECK(three_shares(kSharesWhole / 2).ok());
  Refused(three_shares(kSharesWhole / 3 * 2 + 2), "too much");

  const auto altered_abort = [&](std::function<void(pb::Abort&)> change) {
    return DecodeAltered<pb::Abort>(requests[6], &Request::mutable_abort, std::move(change));
  };
  Refused(altered_abort([](auto& m) { m.set_reason(std::string(kMaxReasonBytes + 1, 'x')); }),
          "abort.reason");
  Refused(altered_abort([](auto& m) { m.add_lost(std::string(31, 'x')); }), "abort.lost");
  Refused(altered_abort([](auto& m) { m.add_lost(m.lost(0)); }), "abort.lost");
}

TEST_CASE("receipts and commits out of bounds are refused by field") {
  const auto altered = [](std::function<void(pb::Commit&)> change) {
    pb::Commit message;
    REQUIRE(message.ParseFromString(EncodeCommit(CommitOf())));
    change(message);
    return DecodeCommit(AsBytes(message.SerializeAsString()));
  };
  Refused(altered([](auto& m) { m.mutable_receipt()->mutable_result()->set_round(17); }),
          "receipt.result");
  Refused(altered([](auto& m) { m.mutable_receipt()->clear_voters(); }), "receipt.voters");
  Refused(altered([](auto& m) { m.mutable_receipt()->set_start_theta(""); }),
          "receipt.start_theta");
  Refused(altered([](auto& m) {
            m.mutable_receipt()->mutable_result()->set_theta(std::string(33, 'x'));
          }),
          "state.theta");
  Refused(altered([](auto& m) { m.mutable_signatures(0)->set_public_key("x"); }), "public_key");
  Refused(altered([](auto& m) { m.mutable_signatures(0)->set_signature(std::string(65, 'x')); }),
          "signature");
  Refused(altered([](auto& m) {
            for (size_t i = 0; i < kMaxRoundMembers; ++i) *m.add_signatures() = m.signatures(0);
          }),
          "commit.signatures");
}

TEST_CASE("round replies with figures that are no numbers are refused") {
  using Reply = pb::RoundReply;
  const std::vector<RoundReply> replies = Replies();
  for (const double bad :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 2e30}) {
    Refused(DecodeAltered<pb::RoundReport>(replies[1], &Reply::mutable_report,
                                           [bad](auto& m) { m.set_mean_loss(bad); }),
            "report.mean_loss");
    Refused(DecodeAltered<pb::Prepared>(replies[2], &Reply::mutable_prepared,
                                        [bad](auto& m) { m.set_exchange_seconds(bad); }),
            "prepared.exchange_seconds");
  }
  const std::vector<std::function<void(pb::LinkFigures&)>> links = {
      [](pb::LinkFigures& link) { link.set_up_bytes_per_sec(kMaxRate + 1); },
      [](pb::LinkFigures& link) { link.set_down_bytes_per_sec(~uint64_t{0}); },
      [](pb::LinkFigures& link) { link.set_values_per_sec(kMaxRate + 1); },
      [](pb::LinkFigures& link) { link.set_rtt_us(-1); },
      [](pb::LinkFigures& link) { link.set_rtt_us(60'000'001); }};
  for (const auto& alter : links) {
    Refused(DecodeAltered<pb::Prepared>(replies[2], &Reply::mutable_prepared,
                                        [&alter](auto& m) { alter(*m.mutable_link()); }),
            "prepared.link");
  }
  Refused(DecodeAltered<pb::RoundReport>(replies[1], &Reply::mutable_report,
                                         [](auto& m) { m.set_tokens(kMaxRoundTokens + 1); }),
          "report.tokens");
}

TEST_CASE("an exchange or a fetch that is about nothing is refused") {
  pb::ExchangeHello hello;
  Refused(DecodeExchangeHello(AsBytes(hello.SerializeAsString())), "tag.job");
  hello.mutable_tag()->set_job(1);
  hello.set_shard(kMaxRoundMembers);
  Refused(DecodeExchangeHello(AsBytes(hello.SerializeAsString())), "hello.shard");
  hello.set_shard(0);
  hello.set_held(std::string(kMaxHeldBytes + 1, 'x'));
  Refused(DecodeExchangeHello(AsBytes(hello.SerializeAsString())), "hello.held");
  pb::ExchangeHeld held;
  held.set_held(std::string(kMaxHeldBytes + 1, 'x'));
  Refused(DecodeExchangeHeld(AsBytes(held.SerializeAsString())), "held");
  Refused(DecodeFetchState({}), "fetch.job");
  pb::FetchState fetch;
  fetch.set_job(1);
  Refused(DecodeFetchState(AsBytes(fetch.SerializeAsString())), "state.theta");
  pb::FetchLeaves leaves;
  leaves.set_count(kMaxLeavesAsked + 1);
  Refused(DecodeFetchLeaves(AsBytes(leaves.SerializeAsString())), "leaves.count");
}

TEST_CASE("a reason of any length and any bytes arrives, cut between characters") {
  std::string reason;
  for (int i = 0; i < 300; ++i)
    reason += "θ";  // 600 bytes: the limit of 512 would not cut a character
  const RoundRequest abort = Abort{Tag(), "x" + reason};
  const auto decoded = DecodeRoundRequest(EncodeRoundRequest(abort).span());
  REQUIRE(decoded.ok());
  CHECK(std::get<Abort>(*decoded).reason == ("x" + reason).substr(0, 511));
  const RoundReply late = Prepared{Tag(), StateOf(18), {}, "cannot open /x/\xff\xfe", 0, 0, 0, 0};
  const auto reply = DecodeRoundReply(EncodeRoundReply(late).span());
  REQUIRE(reply.ok());
  CHECK(std::get<Prepared>(*reply).failure == "cannot open /x/\?\?");
}

TEST_CASE("what is signed of a receipt depends on every field") {
  const Digest whole = ReceiptOf().SigningDigest();
  const std::vector<std::function<void(Receipt&)>> changes = {
      [](Receipt& r) { r.tag.job.value = 4; },
      [](Receipt& r) { r.tag.epoch.value = 9; },
      [](Receipt& r) { r.tag.round.value = 9; },
      [](Receipt& r) { r.tag.attempt = 9; },
      [](Receipt& r) { r.voters.pop_back(); },
      [](Receipt& r) { std::swap(r.voters[0], r.voters[1]); },
      [](Receipt& r) { r.contributions[0].tokens = 9; },
      [](Receipt& r) { r.contributions[0].node = Node("c"); },
      [](Receipt& r) { r.contributions.pop_back(); },
      [](Receipt& r) { r.start_theta = HashBytes("x"); },
      [](Receipt& r) { r.result.round.value = 9; },
      [](Receipt& r) { r.result.theta = HashBytes("x"); },
      [](Receipt& r) { r.result.momentum = HashBytes("x"); },
      [](Receipt& r) { r.result.cursor.epoch = 9; },
      [](Receipt& r) { r.result.cursor.position = 9; },
      [](Receipt& r) { r.codec = 9; },
      [](Receipt& r) { r.next_codec = 9; },
      [](Receipt& r) { r.fragment = HashBytes("x"); },
      [](Receipt& r) { r.fragment = {}; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    Receipt changed = ReceiptOf();
    changes[i](changed);
    INFO(i);
    CHECK(changed.SigningDigest() != whole);
  }
  // By Python's hashlib; what names no fragment is signed as receipts were before they named one.
  CHECK(whole.ToHex() == "50872464139222765e4e8c90e42e6e7d1432148f4a595f5f7d28187285245d3e");
  Receipt without = ReceiptOf();
  without.fragment = {};
  CHECK(without.SigningDigest().ToHex() == "7bb976e534071906ea2c6b9f22e3991c5f242d11a882225b7ce8c618273b0bd1");
  CHECK(ReceiptOf().Contributed(Node("a")));
  CHECK_FALSE(ReceiptOf().Contributed(Node("b")));  // 0 tokens: took part, gave nothing
  CHECK(EpochRecord{Epoch{1}, Node("a"), std::vector<NodeId>(4)}.majority() == 3);
  CHECK(EpochRecord{Epoch{1}, Node("a"), std::vector<NodeId>(5)}.majority() == 3);
}

}  // namespace
}  // namespace gdf::wire
