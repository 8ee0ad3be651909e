// Two levels: between sites goes one slice for all of a site, and everybody still ends with the same bytes.
#include <catch2/catch.hpp>
#include <set>

#include "core/exchange/routes.h"
#include "tests/unit/exchange/group.h"

namespace gdf::exchange {
namespace {

std::vector<uint32_t> RandomSites(SeededRng& rng, size_t members, uint64_t sites) {
  std::vector<uint32_t> of(members);
  for (uint32_t& site : of) site = static_cast<uint32_t>(rng.Below(sites)) * 1000;
  return of;
}

TEST_CASE("two sites of two: each member is the gate of one owner at the other site") {
  const std::vector<uint32_t> sites = {0, 0, 1, 1};
  const Routes routes(sites, std::vector<bool>(4));
  CHECK(routes.next(1, 0) == 0);
  CHECK(routes.next(2, 0) == 0);  // the gate
  CHECK(routes.next(3, 0) == 2);
  CHECK(routes.next(2, 1) == 3);
  CHECK(routes.next(0, 2) == 2);
  CHECK(routes.next(0, 3) == 1);
  CHECK(routes.senders(0, 0) == std::vector<uint32_t>{1, 2});
  CHECK(routes.senders(2, 0) == std::vector<uint32_t>{3});
  CHECK(routes.senders(3, 0).empty());
  CHECK(routes.behind(2, 0) == std::vector<uint32_t>{2, 3});
  CHECK(routes.behind(3, 0) == std::vector<uint32_t>{3});
  // Member 2 is lost: its neighbour takes its turn.
  const Routes without(sites, {false, false, true, false});
  CHECK(without.next(3, 0) == 0);
  CHECK(without.senders(0, 0) == std::vector<uint32_t>{1, 3});
}

TEST_CASE("every slice comes to its owner, once, by two steps at most, and once from each other site") {
  SeededRng rng(7);
  for (int trial = 0; trial < 300; ++trial) {
    const size_t members = 1 + rng.Below(12);
    const std::vector<uint32_t> sites = RandomSites(rng, members, 1 + rng.Below(5));
    std::vector<bool> gone(members);
    for (size_t i = 0; i < members; ++i) gone[i] = rng.Below(4) == 0;
    const Routes routes(sites, gone);
    for (uint32_t owner = 0; owner < members; ++owner) {
      if (gone[owner]) continue;
      std::set<uint32_t> other_sites;
      std::multiset<uint32_t> arrived;
      for (const uint32_t sender : routes.senders(owner, owner)) {
        CHECK(routes.next(sender, owner) == owner);
        if (sites[sender] != sites[owner]) CHECK(other_sites.insert(sites[sender]).second);
        for (const uint32_t behind : routes.behind(sender, owner)) {
          arrived.insert(behind);
          CHECK(sites[behind] == sites[sender]);
          if (behind == sender) continue;
          CHECK(routes.next(behind, owner) == sender);
          CHECK(routes.senders(behind, owner).empty());
        }
      }
      std::multiset<uint32_t> expected;
      for (uint32_t i = 0; i < members; ++i) {
        if (i != owner && !gone[i]) expected.insert(i);
      }
      CHECK(arrived == expected);
    }
  }
}

TEST_CASE("sites that would have a member open too many streams to another do not fit") {
  std::vector<uint32_t> sites;
  for (uint32_t site = 0; site < 64; ++site) sites.insert(sites.end(), 2, site);
  CHECK(Routes(sites, std::vector<bool>(sites.size())).fit());  // 63 others and its own
  sites.insert(sites.end(), 2, 64);
  CHECK_FALSE(Routes(sites, std::vector<bool>(sites.size())).fit());
  CHECK(Routes({}, std::vector<bool>(1000)).fit());
}

TEST_CASE("all members end with the same mean, wherever they are") {
  SeededRng rng(3);
  for (const char* codec : {"fp32", "bf16", "int8:64", "int4"}) {
    for (size_t members = 1; members <= 9; ++members) {
      std::vector<uint64_t> tokens;
      for (size_t i = 0; i < members; ++i) tokens.push_back(rng.Below(4) == 0 && i > 0 ? 0 : 100 + 17 * i);
      for (const uint64_t count : {0, 1, 65, 4099}) CheckAllReduce(codec, count, tokens, {}, RandomSites(rng, members, 3));
    }
  }
  CheckAllReduce("int8:256", 6 * kPieceValues + 1, {3, 5, 8, 2}, {}, {1, 0, 1, 0});  // shards of several frames
}

// What passes between members 0, 1 and 2, 3.
uint64_t BytesBetween(const std::vector<uint32_t>& sites) {
  const std::shared_ptr<const compress::Codec> codec = MakeCodec("fp32");
  constexpr uint64_t kCount = 1 << 18;
  Group group(4);
  for (int i = 0; i < 4; ++i) {
    AllReduceRequest request = group.Request(i, codec, kCount, {1, 1, 1, 1}, Pack(*codec, Values(1, kCount)));
    request.sites = sites;
    group.Start(i, std::move(request));
  }
  group.executor.RunUntilIdle();
  uint64_t bytes = 0;
  for (const auto& [i, j] : {std::pair(0, 2), {0, 3}, {1, 2}, {1, 3}}) {
    CHECK(group.members[i].outcome->status == absl::OkStatus());
    const net::TrafficCounters passed = group.members[i].transport->counters(TestId(j));
    bytes += passed.bytes_sent + passed.bytes_received;
  }
  return bytes;
}

TEST_CASE("half as much passes between two sites of two as between four members that know of none") {
  const double flat = static_cast<double>(BytesBetween({}));
  CHECK(flat >= 4 << 20);  // 4 S: two slices of each quarter and two means
  CHECK(static_cast<double>(BytesBetween({0, 0, 1, 1})) <= flat / 1.9);
}

TEST_CASE("sites that do not fit the members or the codec are refused at once") {
  Group group(2);
  const std::vector<float> values = Values(1, 100);
  for (const auto& [name, sites] : {std::pair("fp32", std::vector<uint32_t>{0}), {"topk2", {0, 1}}}) {
    const std::shared_ptr<const compress::Codec> codec = MakeCodec(name);
    AllReduceRequest request = group.Request(0, codec, 100, {1, 1}, Pack(*codec, values));
    request.sites = sites;
    group.members[0].outcome.reset();
    group.Start(0, std::move(request));
    group.executor.RunUntil([&] { return group.members[0].outcome.has_value(); });
    REQUIRE(group.members[0].outcome);
    CHECK(absl::IsInvalidArgument(group.members[0].outcome->status));
  }
}

}  // namespace
}  // namespace gdf::exchange
