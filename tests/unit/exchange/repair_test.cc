// A member is lost in the middle: the others go on with what they hold, and send no more than what
// they do not.
#include <algorithm>
#include <catch2/catch.hpp>

#include "core/exchange/pieces.h"
#include "tests/unit/exchange/group.h"

namespace gdf::exchange {
namespace {

AllReduceRequest Without(AllReduceRequest request, const std::vector<int>& lost, uint32_t attempt) {
  request.tag.attempt = attempt;
  request.resumes = 1;
  for (const int member : lost) {
    request.lost.push_back(TestId(member));
    request.members[member].tokens = 0;
  }
  return request;
}

struct Setting {
  const char* codec;
  uint64_t count;
  std::vector<uint64_t> tokens;
  std::vector<uint32_t> shares = {};  // equal
  std::vector<uint32_t> sites = {};   // one
  int lost = 2;
};

// What the survivors received in the attempt that failed and in the one that followed.
struct Repair {
  bool failed = false;  // some survivor did not finish the first attempt
  uint64_t received = 0;
};

// Four members; one crashes before message `k` of the first attempt.
Repair RunRepair(const Setting& setting, uint64_t k) {
  const std::shared_ptr<const compress::Codec> codec = MakeCodec(setting.codec);
  const std::vector<Buffer> packed = PackedDeltas(*codec, 4, setting.count);
  const Digest before = HashBytes(packed[0].span());
  Group group(4, k);
  const auto request = [&](int i) {
    AllReduceRequest made = group.Request(i, codec, setting.count, setting.tokens, packed[i]);
    made.shares = setting.shares;
    made.sites = setting.sites;
    return made;
  };
  const int lost = setting.lost;
  TaskScope doomed(group.executor);
  group.network.set_on_message([&](const sim::SimMessage& message) {
    if (message.number != k || !group.members[lost].transport) return;
    group.members[lost].transport->Mute();
    doomed.Clear();
    group.Crash(lost);
  });
  doomed.Spawn([](Group::Member* member, AllReduceRequest of_lost) -> Task<void> {
    Outcome ignored = co_await member->exchange->AllReduce(std::move(of_lost));
  }(&group.members[lost], request(lost)));
  std::vector<int> survivors = {0, 1, 2, 3};
  std::erase(survivors, lost);
  for (const int i : survivors) group.Start(i, request(i));
  const auto all_ended = [&] {
    return std::all_of(survivors.begin(), survivors.end(),
                       [&](int i) { return group.members[i].outcome.has_value(); });
  };
  group.executor.RunUntil(all_ended);
  REQUIRE(all_ended());
  CHECK(group.executor.Monotonic() < absl::Seconds(5));
  Repair repair;
  for (const int i : survivors) {
    repair.failed = repair.failed || !group.members[i].outcome->status.ok();
    repair.received += group.members[i].outcome->payload_received;
    group.members[i].outcome.reset();
  }
  for (const int i : survivors) group.Start(i, Without(request(i), {lost}, 2));
  group.executor.RunUntilIdle();
  std::vector<uint64_t> tokens = setting.tokens;
  tokens[lost] = 0;
  const std::vector<float> expected =
      setting.sites.empty()
          ? ExpectedMean(*codec, packed, tokens, setting.count)
          : ExpectedMeanOfSites(*codec, packed, tokens, setting.count, setting.sites, {static_cast<uint32_t>(lost)});
  for (const int i : survivors) {
    REQUIRE(group.members[i].outcome);
    const Outcome& outcome = *group.members[i].outcome;
    INFO("member " << i);
    REQUIRE(outcome.status == absl::OkStatus());
    CHECK(SameBits(outcome.mean.span(), expected));
    repair.received += outcome.payload_received;
  }
  CHECK(HashBytes(packed[0].span()) == before);
  return repair;
}

TEST_CASE(
    "the others finish without a member that died, before any message, with the mean of their own "
    "deltas") {
  for (const Setting& setting :
       {Setting{"fp32", 1000, {1, 2, 3, 4}}, Setting{"int8:64", 4099, {5, 0, 7, 9}},
        Setting{"bf16", 4, {1, 1, 1, 1}}, Setting{"topk2", 9000, {1, 2, 3, 4}},
        Setting{"bf16", 1000, {1, 2, 3, 4}, {20000, 0, 30000, 15536}}}) {
    for (uint64_t k = 1; k <= 36; ++k) {
      INFO(setting.codec << ", before message " << k);
      RunRepair(setting, k);
    }
  }
}

TEST_CASE("with sites the others finish without a member that died, before any message") {
  for (Setting setting : {Setting{"fp32", 1000, {1, 2, 3, 4}}, Setting{"int8:64", 4099, {5, 0, 7, 9}},
                          Setting{"int8:64", 4099, {0, 0, 7, 9}}, Setting{"bf16", 4, {1, 1, 1, 1}}}) {
    for (const std::vector<uint32_t>& sites : {std::vector<uint32_t>{0, 0, 1, 1}, {0, 1, 0, 0}, {7, 3, 7, 3}}) {
      setting.sites = sites;
      for (setting.lost = 0; setting.lost < 4; ++setting.lost) {
        for (uint64_t k = 1; k <= 40; ++k) {
          INFO(setting.codec << ", node " << setting.lost << ", before message " << k);
          RunRepair(setting, k);
        }
      }
    }
  }
}

// By hand, for 4 x 256 values of 4 bytes and three survivors. Each shard is 1024 bytes, that of the
// lost member goes to one of the others. Slices that pass between survivors, each once: 2 of each
// of the 4 shards.
constexpr uint64_t kSlices = 4 * 2 * 1024;
// Means that pass between survivors, each once: 2 of each of the 4 shards.
constexpr uint64_t kMeans = 4 * 2 * 1024;

TEST_CASE(
    "a slice that a survivor holds is not sent again; means are made once more, without the lost "
    "member") {
  const Setting setting{"fp32", 1024, {1, 2, 3, 4}};
  // Before the loss survivors may also have received the lost member's slice of their 3 shards, its
  // mean, and means that had its part: 2 of each of 3 shards.
  const uint64_t most = kSlices + kMeans + 3 * 1024 + 3 * 1024 + 3 * 2 * 1024;
  uint64_t failed = 0;
  for (uint64_t k = 1; k <= 36; ++k) {
    INFO("before message " << k);
    const Repair repair = RunRepair(setting, k);
    CHECK(repair.received <= most);
    CHECK(repair.received >= kSlices + kMeans);
    failed += repair.failed ? 1 : 0;
  }
  CHECK(failed > 20);
}

TEST_CASE(
    "a lost member that had nothing to give: what survivors hold of the mean stays, and each byte "
    "is received once") {
  const Setting setting{"fp32", 1024, {1, 2, 0, 4}};
  for (uint64_t k = 1; k <= 36; ++k) {
    INFO("before message " << k);
    const Repair repair = RunRepair(setting, k);
    if (!repair.failed) continue;
    // A survivor that had finished gave its mean away, and receives it again: 3 shards at most,
    // from the others.
    CHECK(repair.received <= kSlices + kMeans + 3 * 1024);
  }
}

TEST_CASE("what was cut by other shares is not taken for what these would be") {
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("fp32");
  Group group(3);
  const std::vector<Buffer> packed = PackedDeltas(*codec, 3, 1000);
  const auto request = [&](int i, std::vector<uint32_t> shares) {
    AllReduceRequest made = group.Request(i, codec, 1000, {1, 1, 1}, packed[i]);
    made.shares = std::move(shares);
    return made;
  };
  for (const int i : {0, 1}) group.Start(i, request(i, {30000, 20000, 15536}));
  group.executor.RunUntil([] { return false; }, absl::Seconds(2));
  group.members[0].exchange->Cancel("the test says so");
  group.executor.RunUntilIdle();
  for (int i = 0; i < 3; ++i) {
    group.members[i].outcome.reset();
    group.Start(i, Without(request(i, {15536, 30000, 20000}), {}, 2));
  }
  group.executor.RunUntilIdle();
  const std::vector<float> expected = ExpectedMean(*codec, packed, {1, 1, 1}, 1000);
  for (const Group::Member& member : group.members) {
    REQUIRE(member.outcome);
    CHECK(member.outcome->status == absl::OkStatus());
    CHECK(SameBits(member.outcome->mean.span(), expected));
  }
}

TEST_CASE("another member dies while the exchange is repaired: it is repaired again") {
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("int8:64");
  const std::vector<uint64_t> tokens = {1, 2, 3, 4};
  const std::vector<Buffer> packed = PackedDeltas(*codec, 4, 1000);
  for (uint64_t k = 1; k <= 18; ++k) {
    INFO("before message " << k << " of the second attempt");
    Group group(4, k);
    const auto request = [&](int i) { return group.Request(i, codec, 1000, tokens, packed[i]); };
    group.Crash(2);
    for (const int i : {0, 1}) group.Start(i, request(i));
    TaskScope doomed(group.executor);
    doomed.Spawn([](Group* g, AllReduceRequest first, AllReduceRequest second) -> Task<void> {
      Outcome ignored = co_await g->members[3].exchange->AllReduce(std::move(first));
      ignored = co_await g->members[3].exchange->AllReduce(std::move(second));
    }(&group, request(3), Without(request(3), {2}, 2)));
    const auto both = [&] { return group.members[0].outcome && group.members[1].outcome; };
    group.executor.RunUntil(both);
    const uint64_t messages = group.network.messages();
    group.network.set_on_message([&](const sim::SimMessage& message) {
      if (message.number != messages + k || !group.members[3].transport) return;
      group.members[3].transport->Mute();
      doomed.Clear();
      group.Crash(3);
    });
    for (uint32_t attempt = 2; attempt <= 3; ++attempt) {
      const std::vector<int> lost = attempt == 2 ? std::vector<int>{2} : std::vector<int>{2, 3};
      for (const int i : {0, 1}) {
        group.members[i].outcome.reset();
        group.Start(i, Without(request(i), lost, attempt));
      }
      group.executor.RunUntil(both);
      REQUIRE(both());
    }
    const std::vector<float> expected = ExpectedMean(*codec, packed, {1, 2, 0, 0}, 1000);
    for (const int i : {0, 1}) {
      CHECK(group.members[i].outcome->status == absl::OkStatus());
      CHECK(SameBits(group.members[i].outcome->mean.span(), expected));
    }
  }
}

TEST_CASE(
    "a member that was never connected to a lost one ends at once when told, unless it has all of "
    "it") {
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("fp32");
  const std::vector<Buffer> packed = PackedDeltas(*codec, 3, 1000);
  SECTION("it waits") {
    Group group(3);
    group.network.Cut(TestId(0), TestId(2));
    for (const int i : {0, 1}) group.Start(i, group.Request(i, codec, 1000, {1, 1, 1}, packed[i]));
    group.executor.RunUntil([] { return false; }, absl::Seconds(2));
    REQUIRE_FALSE(group.members[0].outcome);
    const wire::RoundTag tag = group.Request(0, codec, 1000, {1, 1, 1}, packed[0]).tag;
    wire::RoundTag other = tag;
    other.attempt = 2;
    group.members[0].exchange->Lose(other, TestId(2), "another attempt's");
    group.members[0].exchange->Lose(tag, TestId(7), "no member");
    group.executor.RunUntil([] { return false; }, absl::Seconds(1));
    REQUIRE_FALSE(group.members[0].outcome);
    group.members[0].exchange->Lose(tag, TestId(2), "the lead says so");
    group.executor.RunUntil([&] { return group.members[0].outcome.has_value(); }, absl::Seconds(1));
    REQUIRE(group.members[0].outcome);
    CHECK(absl::IsUnavailable(group.members[0].outcome->status));
    CHECK(group.members[0].outcome->lost == std::vector<NodeId>{TestId(2)});
  }
  SECTION("it has all") {
    // Member 2 owns nothing of 2 values and has sent its slices; member 1 comes late.
    Group group(3);
    const std::vector<Buffer> two = PackedDeltas(*codec, 3, 2);
    for (const int i : {0, 2}) group.Start(i, group.Request(i, codec, 2, {1, 1, 1}, two[i]));
    group.executor.RunUntil([] { return false; }, absl::Seconds(2));
    AllReduceRequest last = group.Request(1, codec, 2, {1, 1, 1}, two[1]);
    group.members[0].exchange->Lose(last.tag, TestId(2), "the lead says so");
    group.executor.RunUntil([] { return false; }, absl::Seconds(1));
    REQUIRE_FALSE(group.members[0].outcome);
    group.Start(1, std::move(last));
    group.executor.RunUntilIdle();
    CHECK(group.members[0].outcome->status == absl::OkStatus());
  }
}

TEST_CASE("who is asked to resume what it holds nothing of takes part all the same") {
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("fp32");
  Group group(3);
  const std::vector<Buffer> packed = PackedDeltas(*codec, 3, 1000);
  for (const int i : {0, 1}) group.Start(i, group.Request(i, codec, 1000, {1, 1, 1}, packed[i]));
  group.executor.RunUntil([] { return false; }, absl::Seconds(2));
  group.members[0].exchange->Cancel("the test says so");
  group.executor.RunUntilIdle();
  group.members[1].exchange->Forget();
  for (int i = 0; i < 3; ++i) {
    group.members[i].outcome.reset();
    group.Start(i, Without(group.Request(i, codec, 1000, {1, 1, 1}, packed[i]), {}, 2));
  }
  group.executor.RunUntilIdle();
  const std::vector<float> expected = ExpectedMean(*codec, packed, {1, 1, 1}, 1000);
  for (const Group::Member& member : group.members) {
    CHECK(member.outcome->status == absl::OkStatus());
    CHECK(SameBits(member.outcome->mean.span(), expected));
  }
}

TEST_CASE("pieces of lost members are owned by others, each by one, and no other changes hands") {
  const ShardPlan plan(40 * kPieceValues + 17, 64, 5);
  const std::vector<uint32_t> order = {3, 0, 4};
  Pieces before(plan, 5, {});
  for (size_t losses = 1; losses <= order.size(); ++losses) {
    const Pieces after(plan, 5, absl::MakeSpan(order.data(), losses));
    REQUIRE(after.size() == before.size());
    std::vector<int> owners(after.size());
    for (uint32_t member = 0; member < 5; ++member) {
      const bool lost = std::find(order.begin(), order.begin() + static_cast<long>(losses),
                                  member) != order.begin() + static_cast<long>(losses);
      CHECK(after.of(member).empty() == lost);
      for (const uint32_t piece : after.of(member)) ++owners[piece];
      if (lost) continue;
      CHECK(std::includes(after.of(member).begin(), after.of(member).end(),
                          before.of(member).begin(), before.of(member).end()));
    }
    CHECK(std::all_of(owners.begin(), owners.end(), [](int n) { return n == 1; }));
    before = after;
  }
}

}  // namespace
}  // namespace gdf::exchange
