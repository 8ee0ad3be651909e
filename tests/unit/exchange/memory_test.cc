// What calls that were ended leave behind: nothing.
#include <malloc.h>

#include <catch2/catch.hpp>

#include "tests/unit/exchange/group.h"

namespace gdf::exchange {
namespace {

size_t HeapInUse() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST_CASE("a thousand calls that are ended in their middle take no memory, and leave the delta as it was") {
  constexpr uint64_t kCount = 60'000;  // a slice of 80 kB: a block that is used again
  constexpr uint32_t kCalls = 1000;
  constexpr uint32_t kSteady = 200;  // timers of the first calls have run out, the pool has its blocks
  const std::vector<uint64_t> tokens = {1, 2, 3};
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("fp32");
  const std::vector<Buffer> packed = PackedDeltas(*codec, 3, kCount);
  const Digest before = HashBytes(packed[0].span());
  Group group(3);
  uint64_t end_at = 0;
  uint32_t call = 1;
  group.network.set_on_message([&](const sim::SimMessage& message) {
    if (message.number == end_at) group.members[call % 3].exchange->Cancel("the test says so");
  });
  const auto all_ended = [&] {
    return group.members[0].outcome && group.members[1].outcome && group.members[2].outcome;
  };
  const auto run = [&] {
    for (int i = 0; i < 3; ++i) {
      group.members[i].outcome.reset();
      group.Start(i, group.Request(i, codec, kCount, tokens, packed[i], call));
    }
    group.executor.RunUntil(all_ended);
    REQUIRE(all_ended());
  };
  int failed = 0;
  size_t steady = 0;
  for (; call <= kCalls; ++call) {
    end_at = group.network.messages() + 1 + call % 17;
    run();
    for (const Group::Member& member : group.members) failed += member.outcome->status.ok() ? 0 : 1;
    if (call == kSteady) steady = HeapInUse();
  }
  CHECK(failed > 2 * static_cast<int>(kCalls));
  // 100 bytes a call: less than one coroutine.
  CHECK(HeapInUse() < steady + (kCalls - kSteady) * 100);
  CHECK(HashBytes(packed[0].span()) == before);
  end_at = 0;
  run();
  const std::vector<float> expected = ExpectedMean(*codec, packed, tokens, kCount);
  for (const Group::Member& member : group.members) {
    CHECK(member.outcome->status == absl::OkStatus());
    CHECK(SameBits(member.outcome->mean.span(), expected));
  }
}

}  // namespace
}  // namespace gdf::exchange
