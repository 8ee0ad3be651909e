#include <catch2/catch.hpp>

#include "core/exchange/shard_plan.h"
#include "tests/unit/exchange/group.h"

namespace gdf::exchange {
namespace {

// Sums of wire::kSharesWhole.
const std::vector<std::vector<uint32_t>> kShares = {
    {65536}, {0, 65536}, {1, 65534, 1}, {21845, 0, 21846, 21845}, {10000, 20000, 0, 0, 35536}};

TEST_CASE("all members end with the same mean: every size, codec and number of members") {
  for (const char* codec : {"fp32", "bf16", "int8:64", "int4", "int8:64:stochastic", "sign:64", "topk2:3", "topk8", "dct"}) {
    for (size_t members = 1; members <= 8; ++members) {
      std::vector<uint64_t> tokens;
      for (size_t i = 0; i < members; ++i) tokens.push_back(100 + 17 * i);
      for (const uint64_t count : {0, 1, 63, 64, 65, 1000, 4099}) CheckAllReduce(codec, count, tokens);
    }
  }
}

TEST_CASE("shards of several frames") {
  for (const char* codec : {"fp32", "int8:256", "topk2"}) {
    CheckAllReduce(codec, 2 * 2 * kPieceValues + 77, {3, 5});
    CheckAllReduce(codec, 3 * kPieceValues + 1, {3, 5, 8});
  }
}

TEST_CASE("members without a contribution get the mean of the others") {
  CheckAllReduce("int8:64", 1000, {5, 0, 7, 0});
  CheckAllReduce("fp32", 1000, {0, 0, 7});
  CheckAllReduce("fp32", 3, {0, 9});
  CheckAllReduce("topk2", 1000, {5, 0, 7, 0});
}

TEST_CASE("the payload is twice (N-1)/N of the packed delta for each member") {
  // 4 members, 4 * 256 values of 4 bytes: each sends its slice of 3 shards and its mean to 3 members.
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("fp32");
  Group group(4);
  for (int i = 0; i < 4; ++i) {
    group.Start(i, group.Request(i, codec, 1024, {1, 1, 1, 1}, Pack(*codec, Values(1, 1024))));
  }
  group.executor.RunUntilIdle();
  for (const Group::Member& member : group.members) {
    CHECK(member.outcome->payload_sent == 2 * 3 * 256 * 4);
    CHECK(member.outcome->payload_received == 2 * 3 * 256 * 4);
  }
}

TEST_CASE("by all-gather the payload is the packed delta to each other member") {
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("topk2");
  Group group(4);
  for (int i = 0; i < 4; ++i) {
    group.Start(i, group.Request(i, codec, 8192, {1, 1, 1, 1}, Pack(*codec, Values(1, 8192))));
  }
  group.executor.RunUntilIdle();
  for (const Group::Member& member : group.members) {
    CHECK(member.outcome->payload_sent == 3 * 2 * 84);
    CHECK(member.outcome->payload_received == 3 * 2 * 84);
  }
}

TEST_CASE("a member may be late: what the others sent ahead waits for it") {
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("fp32");
  Group group(3);
  const std::vector<uint64_t> tokens = {1, 1, 1};
  const Buffer packed = Pack(*codec, Values(1, 100));
  group.Start(0, group.Request(0, codec, 100, tokens, packed));
  group.Start(1, group.Request(1, codec, 100, tokens, packed));
  group.executor.RunUntil([] { return false; }, absl::Seconds(10));
  CHECK_FALSE(group.members[0].outcome);
  group.Start(2, group.Request(2, codec, 100, tokens, packed));
  group.executor.RunUntilIdle();
  for (const Group::Member& member : group.members) CHECK(member.outcome->status == absl::OkStatus());
}

TEST_CASE("a request that contradicts itself is refused at once") {
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("fp32");
  Group group(2);
  const Buffer packed = Pack(*codec, Values(1, 100));
  AllReduceRequest request = group.Request(0, codec, 100, {1, 1}, packed);
  SECTION("this node is not among the members") { request.members.erase(request.members.begin()); }
  SECTION("another job") { request.tag.job = JobId{4}; }
  SECTION("a delta of another size") { request.packed = packed.Slice(0, 396); }
  SECTION("tokens without a delta") { request.packed = Buffer(); }
  SECTION("a delta without tokens") { request.members[0].tokens = 0; }
  SECTION("nobody contributes") {
    request.packed = Buffer();
    for (wire::Contribution& member : request.members) member.tokens = 0;
  }
  group.Start(0, std::move(request));
  group.executor.RunUntilIdle();
  REQUIRE(group.members[0].outcome);
  CHECK(absl::IsInvalidArgument(group.members[0].outcome->status));
}

void CheckCovers(const ShardPlan& plan, uint64_t count, uint64_t block, uint32_t shards) {
  uint64_t at = 0;
  for (uint32_t i = 0; i < shards; ++i) {
    const Range shard = plan.shard(i);
    if (!shard.empty()) {
      REQUIRE(shard.begin == at);
      REQUIRE(shard.begin % block == 0);
      at = shard.end;
    }
    uint64_t in_shard = shard.begin;
    for (uint64_t p = 0; p < plan.num_pieces(i); ++p) {
      const Range piece = plan.piece(i, p);
      REQUIRE(piece.begin == in_shard);
      REQUIRE(piece.size() <= kPieceValues);
      REQUIRE_FALSE(piece.empty());
      in_shard = piece.end;
    }
    REQUIRE(in_shard == shard.end);
  }
  REQUIRE(at == count);
}

TEST_CASE("shards cover the delta in order, at multiples of the block") {
  for (const uint64_t count : {0, 1, 64, 65, 1000, 100000}) {
    for (const uint64_t block : {1, 64, 256}) {
      for (uint32_t shards = 1; shards <= 9; ++shards) {
        CheckCovers(ShardPlan(count, block, shards), count, block, shards);
      }
      for (const std::vector<uint32_t>& shares : kShares) {
        const ShardPlan plan(count, block, shares);
        CheckCovers(plan, count, block, static_cast<uint32_t>(shares.size()));
        for (uint32_t i = 0; i < shares.size(); ++i) {
          const double exact = static_cast<double>(shares[i]) / wire::kSharesWhole * static_cast<double>(count);
          CHECK(std::abs(static_cast<double>(plan.shard(i).size()) - exact) <= static_cast<double>(block));
        }
      }
    }
  }
  // 2^40 values: the cut is exact there too.
  CHECK(ShardPlan(uint64_t{1} << 40, 1, std::vector<uint32_t>{1, 65535}).shard(0) == Range{0, uint64_t{1} << 24});
}

TEST_CASE("shards of unequal shares: the same mean, and each member sends and receives by what it owns") {
  for (const char* codec : {"fp32", "int8:64", "topk2:3"}) {
    for (const std::vector<uint32_t>& shares : kShares) {
      const std::vector<uint64_t> tokens(shares.size(), 7);
      for (const uint64_t count : {0, 1, 64, 1000, 4099}) CheckAllReduce(codec, count, tokens, shares);
    }
  }
  // 1024 values of 4 bytes; member 1 owns none of them, the others a half each.
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("fp32");
  Group group(3);
  for (int i = 0; i < 3; ++i) {
    AllReduceRequest request = group.Request(i, codec, 1024, {1, 1, 1}, Pack(*codec, Values(1, 1024)));
    request.shares = {32768, 0, 32768};
    group.Start(i, std::move(request));
  }
  group.executor.RunUntilIdle();
  CHECK(group.members[1].outcome->payload_sent == 4096);            // its slices
  CHECK(group.members[0].outcome->payload_sent == 2048 + 2 * 2048);  // a slice, and its mean to two
}

TEST_CASE("shares that are not one a member, or not the whole, are refused") {
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("fp32");
  for (const std::vector<uint32_t>& shares :
       {std::vector<uint32_t>{wire::kSharesWhole}, {1, 2}, {wire::kSharesWhole, 1}, {0, 0}, {~0u, ~0u}}) {
    Group group(2);
    AllReduceRequest request = group.Request(0, codec, 10, {1, 1}, Pack(*codec, Values(1, 10)));
    request.shares = shares;
    group.Start(0, std::move(request));
    group.executor.RunUntilIdle();
    REQUIRE(group.members[0].outcome);
    CHECK(absl::IsInvalidArgument(group.members[0].outcome->status));
  }
}

}  // namespace
}  // namespace gdf::exchange
