// Peers that are lost or lie: every call ends, by its deadline at the latest, and says who it was.
#include <catch2/catch.hpp>

#include <functional>

#include "tests/unit/exchange/group.h"

namespace gdf::exchange {
namespace {

constexpr uint64_t kCount = 1000;
const std::vector<uint64_t> kTokens = {1, 2, 3};

bool Names(const Outcome& outcome, int member) {
  return outcome.lost == std::vector<NodeId>{TestId(member)} &&
         outcome.status.message().find(TestId(member).Short()) != absl::string_view::npos;
}

TEST_CASE("a member crashes before each message: the others end soon, and name it") {
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("int8:64");
  const Buffer packed = Pack(*codec, Values(1, kCount));
  const Digest before = HashBytes(packed.span());
  const uint64_t messages = 18;  // of a clean run: 6 streams with a hello, a slice and a mean each
  int failed = 0;
  for (uint64_t k = 1; k <= messages; ++k) {
    INFO("before message " << k);
    Group group(3, k);
    // Member 2's call is not awaited by a task of the group, since the crash takes it along.
    for (int i = 0; i < 2; ++i) group.Start(i, group.Request(i, codec, kCount, kTokens, packed));
    TaskScope doomed(group.executor);
    group.network.set_on_message([&](const sim::SimMessage& message) {
      if (message.number == k && group.members[2].transport) {
        group.members[2].transport->Mute();
        doomed.Clear();
        group.Crash(2);
      }
    });
    doomed.Spawn([](Group* g, AllReduceRequest request) -> Task<void> {
      Outcome ignored = co_await g->members[2].exchange->AllReduce(std::move(request));
    }(&group, group.Request(2, codec, kCount, kTokens, packed)));
    group.executor.RunUntil([&] { return group.members[0].outcome && group.members[1].outcome; });
    CHECK(group.executor.Monotonic() < absl::Seconds(5));
    bool named = false;
    for (int i = 0; i < 2; ++i) {
      REQUIRE(group.members[i].outcome);
      const Outcome& outcome = *group.members[i].outcome;
      if (outcome.status.ok()) continue;
      // Whoever saw the loss names it; who heard of it from the other has kAborted.
      named = named || Names(outcome, 2);
      CHECK((Names(outcome, 2) || (absl::IsAborted(outcome.status) && outcome.lost.empty())));
      ++failed;
    }
    if (!group.members[0].outcome->status.ok() && !group.members[1].outcome->status.ok()) CHECK(named);
  }
  CHECK(failed > 10);
  CHECK(HashBytes(packed.span()) == before);
}

TEST_CASE("a member that never starts: the others end by the deadline and name it") {
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("fp32");
  Group group(3);
  const Buffer packed = Pack(*codec, Values(1, kCount));
  for (int i = 0; i < 2; ++i) group.Start(i, group.Request(i, codec, kCount, kTokens, packed));
  group.executor.RunUntilIdle();
  CHECK(group.executor.Monotonic() < absl::Seconds(31));
  int named = 0;
  for (int i = 0; i < 2; ++i) {
    REQUIRE(group.members[i].outcome);
    const Outcome& outcome = *group.members[i].outcome;
    CHECK_FALSE(outcome.status.ok());
    if (absl::IsDeadlineExceeded(outcome.status) && Names(outcome, 2)) ++named;
  }
  CHECK(named >= 1);
}

TEST_CASE("a call that is cancelled ends at once; peers hear of it, and the next attempt succeeds") {
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("fp32");
  Group group(3);
  const Buffer packed = Pack(*codec, Values(1, kCount));
  for (int i = 0; i < 2; ++i) group.Start(i, group.Request(i, codec, kCount, kTokens, packed));
  group.executor.RunUntil([] { return false; }, absl::Seconds(1));
  group.members[0].exchange->Cancel("the lead says so");
  group.executor.RunUntil([&] { return group.members[0].outcome && group.members[1].outcome; });
  CHECK(absl::IsCancelled(group.members[0].outcome->status));
  CHECK(absl::IsAborted(group.members[1].outcome->status));
  CHECK(group.members[1].outcome->lost.empty());
  CHECK(group.executor.Monotonic() < absl::Seconds(3));
  for (int i = 0; i < 3; ++i) {
    group.members[i].outcome.reset();
    group.Start(i, group.Request(i, codec, kCount, kTokens, packed, /*attempt=*/2));
  }
  group.executor.RunUntilIdle();
  for (const Group::Member& member : group.members) CHECK(member.outcome->status == absl::OkStatus());
}

// Member 2 is played by hand: it opens its slices as `hello` and `frames` say, and owns its shard as `means` say.
struct Liar {
  std::function<void(wire::ExchangeHello&)> hello = [](wire::ExchangeHello&) {};
  std::function<Buffer(Buffer)> slice = [](Buffer frame) { return frame; };
  std::function<Buffer(Buffer)> mean = [](Buffer frame) { return frame; };
  bool finish_early = false;
  int streams = 1;
};

Task<void> SendSlice(Group* group, int owner, Liar liar, Buffer slice) {
  for (int s = 0; s < liar.streams; ++s) {
    absl::StatusOr<std::unique_ptr<net::Stream>> stream = co_await group->members[2].transport->Open(
        TestId(owner), Exchange::Method(kJob), net::Priority::kBulk, absl::Seconds(5));
    if (!stream.ok()) co_return;
    wire::ExchangeHello hello{{kJob, Epoch{1}, RoundId{5}, 1}, static_cast<uint32_t>(owner), kCount, true};
    liar.hello(hello);
    Buffer encoded = wire::EncodeExchangeHello(hello);
    (void)co_await (*stream)->Send(std::move(encoded));
    Buffer frame = liar.slice(slice);
    if (!liar.finish_early) (void)co_await (*stream)->Send(std::move(frame));
    (*stream)->Finish();
    while (true) {
      absl::StatusOr<std::optional<Buffer>> got = co_await (*stream)->Receive(absl::Seconds(40));
      if (!got.ok() || !got->has_value()) break;
    }
  }
}

// Gives everybody "the mean" without waiting for what they send.
Task<void> GiveMean(Liar liar, Buffer mean, std::unique_ptr<net::Stream> stream) {
  absl::StatusOr<std::optional<Buffer>> hello = co_await stream->Receive(absl::Seconds(40));
  if (!hello.ok()) co_return;
  Buffer frame = liar.mean(std::move(mean));
  (void)co_await stream->Send(std::move(frame));
  stream->Finish();
  while (true) {
    absl::StatusOr<std::optional<Buffer>> got = co_await stream->Receive(absl::Seconds(40));
    if (!got.ok() || !got->has_value()) break;
  }
}

std::vector<Outcome> RunWithLiar(const Liar& liar) {
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("fp32");
  const Buffer packed = Pack(*codec, Values(1, kCount));
  Group group(3);
  group.members[2].exchange.reset();
  const ShardPlan plan(kCount, codec->block(), 3);
  const auto bytes = [&](uint32_t owner) {
    const Range range = PackedRange(*codec, plan.shard(owner));
    return packed.Slice(range.begin, range.size());
  };
  TaskScope lies(group.executor);
  net::Registration owns = group.members[2].transport->HandleStream(
      Exchange::Method(kJob),
      [&](NodeId, std::unique_ptr<net::Stream> stream) { return GiveMean(liar, bytes(2), std::move(stream)); }, {});
  for (const int owner : {0, 1}) lies.Spawn(SendSlice(&group, owner, liar, bytes(static_cast<uint32_t>(owner))));
  for (int i = 0; i < 2; ++i) group.Start(i, group.Request(i, codec, kCount, kTokens, packed));
  group.executor.RunUntil([&] { return group.members[0].outcome && group.members[1].outcome; });
  std::vector<Outcome> outcomes;
  for (int i = 0; i < 2; ++i) {
    REQUIRE(group.members[i].outcome);
    outcomes.push_back(*std::move(group.members[i].outcome));
  }
  return outcomes;
}

Buffer WithNan(Buffer frame) {
  std::vector<uint8_t> bytes(frame.span().begin(), frame.span().end());
  const uint8_t nan[4] = {0, 0, 0xc0, 0x7f};
  std::copy(nan, nan + 4, bytes.begin() + 8);
  return Buffer(std::move(bytes));
}

Buffer Longer(Buffer frame) {
  std::vector<uint8_t> bytes(frame.span().begin(), frame.span().end());
  bytes.resize(bytes.size() + 4);
  return Buffer(std::move(bytes));
}

Buffer Shorter(Buffer frame) { return frame.Slice(0, frame.size() - 4); }

TEST_CASE("played by the rules, the hand-made member is one like any other") {
  for (const Outcome& outcome : RunWithLiar({})) CHECK(outcome.status == absl::OkStatus());
}

TEST_CASE("a peer that sends what it must not is named, with what was expected") {
  Liar liar;
  std::string expected;
  SECTION("a slice that is too long") {
    liar.slice = Longer;
    expected = "sent a frame of ";
  }
  SECTION("a slice that is too short") {
    liar.slice = Shorter;
    expected = "sent a frame of ";
  }
  SECTION("an empty slice") {
    liar.slice = [](Buffer) { return Buffer(); };
    expected = "sent a frame of 0 bytes";
  }
  SECTION("a slice that is not finite") {
    liar.slice = WithNan;
    expected = "NaN";
  }
  SECTION("no slice at all") {
    liar.finish_early = true;
    expected = "sent a frame of its end";
  }
  SECTION("a mean that is too long") {
    liar.mean = Longer;
    expected = "sent a frame of ";
  }
  SECTION("a mean that is too short") {
    liar.mean = Shorter;
    expected = "sent a frame of ";
  }
  SECTION("a mean that is not finite") {
    liar.mean = WithNan;
    expected = "NaN";
  }
  int named = 0;
  for (const Outcome& outcome : RunWithLiar(liar)) {
    INFO(outcome.status);
    CHECK_FALSE(outcome.status.ok());
    if (absl::IsAborted(outcome.status)) continue;  // it heard of it from the other
    CHECK(absl::IsInvalidArgument(outcome.status));
    CHECK(Names(outcome, 2));
    CHECK(outcome.status.message().find(expected) != absl::string_view::npos);
    ++named;
  }
  CHECK(named >= 1);
}

TEST_CASE("a hello that does not fit is refused: the exchange goes on without it, to its deadline") {
  Liar liar;
  SECTION("another number of parameters") { liar.hello = [](wire::ExchangeHello& h) { ++h.num_params; }; }
  SECTION("another shard") { liar.hello = [](wire::ExchangeHello& h) { h.shard = 2; }; }
  SECTION("says that it contributes nothing") { liar.hello = [](wire::ExchangeHello& h) { h.contributes = false; }; }
  SECTION("another job") { liar.hello = [](wire::ExchangeHello& h) { h.tag.job = JobId{4}; }; }
  SECTION("an attempt that is over") { liar.hello = [](wire::ExchangeHello& h) { h.tag.attempt = 0; }; }
  SECTION("an attempt that never comes") { liar.hello = [](wire::ExchangeHello& h) { h.tag.attempt = 9; }; }
  int named = 0;
  for (const Outcome& outcome : RunWithLiar(liar)) {
    INFO(outcome.status);
    CHECK_FALSE(outcome.status.ok());
    if (Names(outcome, 2)) ++named;
  }
  CHECK(named >= 1);
}

TEST_CASE("a slice that is opened twice counts once") {
  Liar liar;
  liar.streams = 2;
  for (const Outcome& outcome : RunWithLiar(liar)) CHECK(outcome.status == absl::OkStatus());
}

Task<void> SendGarbage(Group* group, Buffer garbage, std::optional<absl::Status>* answer) {
  absl::StatusOr<std::unique_ptr<net::Stream>> stream = co_await group->members[1].transport->Open(
      TestId(0), Exchange::Method(kJob), net::Priority::kBulk, absl::Seconds(5));
  REQUIRE(stream.ok());
  (void)co_await (*stream)->Send(std::move(garbage));
  (*stream)->Finish();
  absl::StatusOr<std::optional<Buffer>> got = co_await (*stream)->Receive(absl::Seconds(100));
  *answer = got.status();
}

TEST_CASE("garbage instead of a hello is refused") {
  Group group(2);
  std::optional<absl::Status> answer;
  group.scope.Spawn(SendGarbage(&group, Buffer(std::string("\xff\xff\xff not a hello")), &answer));
  group.executor.RunUntilIdle();
  REQUIRE(answer);
  CHECK(absl::IsInvalidArgument(*answer));
}

TEST_CASE("a node that is no member of the exchange is refused") {
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("fp32");
  Group group(3);
  const Buffer packed = Pack(*codec, Values(1, kCount));
  // Members 0 and 1 exchange; member 2 believes that it takes part.
  for (int i = 0; i < 2; ++i) {
    AllReduceRequest request = group.Request(i, codec, kCount, kTokens, packed);
    request.members.pop_back();
    group.Start(i, std::move(request));
  }
  group.Start(2, group.Request(2, codec, kCount, kTokens, packed));
  group.executor.RunUntilIdle();
  CHECK(group.members[0].outcome->status == absl::OkStatus());
  CHECK(group.members[1].outcome->status == absl::OkStatus());
  CHECK_FALSE(group.members[2].outcome->status.ok());
}

}  // namespace
}  // namespace gdf::exchange
