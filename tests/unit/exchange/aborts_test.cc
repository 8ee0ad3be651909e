// Calls that are ended in their middle: they end at once, and nothing of them is left for the next one.
#include <catch2/catch.hpp>

#include "tests/unit/exchange/group.h"

namespace gdf::exchange {
namespace {

constexpr uint64_t kCount = 1000;
const std::vector<uint64_t> kTokens = {1, 2, 3};
constexpr uint64_t kMessages = 18;  // of a clean run of three: 6 streams with a hello, a slice and a mean each

// A member that begins the second call as soon as its first one has ended, whatever the others are at.
Task<void> OneAfterTheOther(Group::Member* member, AllReduceRequest first, AllReduceRequest second,
                            std::optional<Outcome>* of_first) {
  Outcome outcome = co_await member->exchange->AllReduce(std::move(first));
  *of_first = std::move(outcome);
  Outcome next = co_await member->exchange->AllReduce(std::move(second));
  member->outcome = std::move(next);
}

TEST_CASE("a call takes nothing of the one before it, wherever that was ended") {
  const bool next_round = GENERATE(false, true);
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("int8:64");
  const std::vector<Buffer> old_packed = PackedDeltas(*codec, kTokens.size(), kCount);
  const std::vector<Buffer> new_packed = PackedDeltas(*codec, kTokens.size(), kCount, 100);
  const std::vector<float> expected_old = ExpectedMean(*codec, old_packed, kTokens, kCount);
  const std::vector<float> expected = ExpectedMean(*codec, new_packed, kTokens, kCount);
  int ended = 0;
  for (uint64_t k = 1; k <= kMessages; ++k) {
    INFO("before message " << k);
    Group group(3, k);
    group.network.set_on_message([&](const sim::SimMessage& message) {
      if (message.number == k) group.members[k % 3].exchange->Cancel("the test says so");
    });
    std::vector<std::optional<Outcome>> of_first(3);
    for (int i = 0; i < 3; ++i) {
      AllReduceRequest second = group.Request(i, codec, kCount, kTokens, new_packed[i], /*attempt=*/2);
      if (next_round) second.tag = {kJob, Epoch{1}, RoundId{6}, 1};
      group.scope.Spawn(OneAfterTheOther(&group.members[i], group.Request(i, codec, kCount, kTokens, old_packed[i]),
                                         std::move(second), &of_first[i]));
    }
    group.executor.RunUntilIdle();
    for (int i = 0; i < 3; ++i) {
      REQUIRE(group.members[i].outcome);
      CHECK(group.members[i].outcome->status == absl::OkStatus());
      CHECK(SameBits(group.members[i].outcome->mean.span(), expected));
      REQUIRE(of_first[i]);
      if (of_first[i]->status.ok()) {
        CHECK(SameBits(of_first[i]->mean.span(), expected_old));
      } else {
        CHECK((absl::IsCancelled(of_first[i]->status) || absl::IsAborted(of_first[i]->status)));
        CHECK(of_first[i]->lost.empty());
        CHECK(of_first[i]->mean.size() == 0);
        ++ended;
      }
    }
  }
  CHECK(ended > 20);
}

// Member 1 takes the hello of a stream to it, and then neither reads nor answers.
Task<void> TakeHello(std::shared_ptr<net::Stream>* kept, std::unique_ptr<net::Stream> stream) {
  (void)co_await stream->Receive(absl::Seconds(40));
  *kept = std::move(stream);
}

TEST_CASE("a sender that waits for room ends with the call, at once") {
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("fp32");
  constexpr uint64_t kLarge = uint64_t{1} << 21;  // a slice of 4 MiB, twice what a stream takes unread
  Group group(2);
  group.members[1].exchange.reset();
  std::shared_ptr<net::Stream> kept;
  net::Registration owns = group.members[1].transport->HandleStream(
      Exchange::Method(kJob),
      [&](NodeId, std::unique_ptr<net::Stream> stream) { return TakeHello(&kept, std::move(stream)); }, {});
  const Buffer packed = Pack(*codec, Values(1, kLarge));
  const Digest before = HashBytes(packed.span());
  group.Start(0, group.Request(0, codec, kLarge, {1, 1}, packed));
  group.executor.RunUntil([] { return false; }, absl::Seconds(5));
  REQUIRE(kept);
  REQUIRE_FALSE(group.members[0].outcome);
  const absl::Duration at = group.executor.Monotonic();
  bool gone = true;
  SECTION("cancelled here") {
    group.members[0].exchange->Cancel("the lead says so");
    gone = false;
  }
  SECTION("the peer ends the stream") { kept->Cancel(absl::UnavailableError("it closes")); }
  SECTION("the connection is reset") { group.network.Reset(TestId(0), TestId(1)); }
  group.executor.RunUntil([&] { return group.members[0].outcome.has_value(); });
  REQUIRE(group.members[0].outcome);
  const Outcome& outcome = *group.members[0].outcome;
  CHECK(group.executor.Monotonic() - at < absl::Seconds(1));
  CHECK(outcome.payload_sent < kLarge / 2 * sizeof(float));  // it did wait for room
  CHECK(absl::IsCancelled(outcome.status) == !gone);
  CHECK(outcome.lost == (gone ? std::vector<NodeId>{TestId(1)} : std::vector<NodeId>{}));
  CHECK(HashBytes(packed.span()) == before);
}

TEST_CASE("a member that packs otherwise than the others is found; nobody has a mean") {
  Group group(3);
  const std::shared_ptr<const compress::Codec> fp32 = MakeCodec("fp32");
  const std::shared_ptr<const compress::Codec> bf16 = MakeCodec("bf16");
  for (int i = 0; i < 3; ++i) {
    const std::shared_ptr<const compress::Codec>& codec = i == 2 ? bf16 : fp32;
    group.Start(i, group.Request(i, codec, kCount, kTokens, Pack(*codec, Values(1, kCount))));
  }
  group.executor.RunUntilIdle();
  int named = 0;
  for (const Group::Member& member : group.members) {
    REQUIRE(member.outcome);
    INFO(member.outcome->status);
    CHECK_FALSE(member.outcome->status.ok());
    CHECK(member.outcome->mean.size() == 0);
    if (member.outcome->status.message().find("sent a frame of ") != absl::string_view::npos) ++named;
  }
  CHECK(named >= 1);
}

// Packets of member 2 are dropped without a reset.
TEST_CASE("a member that falls silent before each message: the others end by the deadline, or when it is given up") {
  const absl::Duration deadline = GENERATE(absl::Seconds(10), absl::Seconds(90));
  const absl::Duration latest = std::min(deadline, sim::NetworkOptions{}.keepalive + absl::Seconds(11));
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("int8:64");
  const std::vector<Buffer> packed = PackedDeltas(*codec, kTokens.size(), kCount);
  const std::vector<float> expected = ExpectedMean(*codec, packed, kTokens, kCount);
  int failed = 0;
  for (uint64_t k = 1; k <= kMessages; ++k) {
    INFO("before message " << k);
    Group group(3, k);
    group.network.set_on_message([&](const sim::SimMessage& message) {
      if (message.number != k) return;
      for (const int other : {0, 1}) group.network.Cut(TestId(other), TestId(2));
    });
    for (int i = 0; i < 3; ++i) {
      AllReduceRequest request = group.Request(i, codec, kCount, kTokens, packed[i]);
      request.deadline = deadline;
      group.Start(i, std::move(request));
    }
    group.executor.RunUntil([&] { return group.members[0].outcome && group.members[1].outcome; });
    CHECK(group.executor.Monotonic() <= latest + absl::Seconds(1));
    bool named = false;
    bool both = true;
    for (int i = 0; i < 2; ++i) {
      REQUIRE(group.members[i].outcome);
      const Outcome& outcome = *group.members[i].outcome;
      if (outcome.status.ok()) {
        CHECK(SameBits(outcome.mean.span(), expected));
        both = false;
        continue;
      }
      named = named || outcome.lost == std::vector<NodeId>{TestId(2)};
      CHECK((outcome.lost.empty() || outcome.lost == std::vector<NodeId>{TestId(2)}));
      CHECK(outcome.mean.size() == 0);
      ++failed;
    }
    // By the deadline an owner that gave no mean may still have waited for another: nobody is named for that.
    if (both && deadline > latest) CHECK(named);
  }
  CHECK(failed > 10);
}

}  // namespace
}  // namespace gdf::exchange
