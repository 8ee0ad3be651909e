#include "core/checkpoint/holders.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <map>
#include <string>

#include "core/base/hash.h"

namespace gdf::checkpoint {
namespace {

std::vector<NodeId> Members(int count) {
  std::vector<NodeId> members;
  for (int i = 0; i < count; ++i) members.push_back(NodeId(HashBytes("member " + std::to_string(i))));
  return members;
}

bool Has(const std::vector<NodeId>& nodes, const NodeId& node) { return std::find(nodes.begin(), nodes.end(), node) != nodes.end(); }

TEST_CASE("as many members keep a checkpoint as are asked for, or all when there are fewer, in whatever order they are named") {
  std::vector<NodeId> members = Members(7);
  for (const size_t replicas : {1, 3, 7}) CHECK(HoldersOf(JobId{1}, members, replicas).size() == replicas);
  CHECK(HoldersOf(JobId{1}, members, 1000).size() == 7);
  CHECK(HoldersOf(JobId{1}, {}, 3).empty());
  const std::vector<NodeId> holders = HoldersOf(JobId{1}, members, 3);
  std::reverse(members.begin(), members.end());
  CHECK(HoldersOf(JobId{1}, members, 3) == holders);
}

TEST_CASE("who goes calls one other member and moves nothing else; who comes relieves at most one") {
  std::vector<NodeId> members = Members(9);
  const std::vector<NodeId> before = HoldersOf(JobId{3}, members, 3);
  for (const NodeId& gone : Members(9)) {
    std::vector<NodeId> left = members;
    left.erase(std::find(left.begin(), left.end(), gone));
    const std::vector<NodeId> after = HoldersOf(JobId{3}, left, 3);
    const auto stay = std::count_if(before.begin(), before.end(), [&](const NodeId& node) { return Has(after, node); });
    CHECK(stay == (Has(before, gone) ? 2 : 3));
  }
}

TEST_CASE("jobs are spread over the members alike") {
  constexpr int kJobs = 3000;
  std::map<NodeId, int> kept;
  const std::vector<NodeId> members = Members(10);
  for (uint64_t job = 1; job <= kJobs; ++job) {
    for (const NodeId& holder : HoldersOf(JobId{job}, members, 2)) ++kept[holder];
  }
  // 600 each, with a standard deviation of sqrt(3000 · 0.2 · 0.8) = 22.
  for (const NodeId& member : members) CHECK(std::abs(kept[member] - 600) < 5 * 22);
}

}  // namespace
}  // namespace gdf::checkpoint
