#include "core/schedule/step_shares.h"

#include <catch2/catch.hpp>
#include <string>

#include "core/base/hash.h"

namespace gdf::schedule {
namespace {

using Shares = std::vector<int64_t>;

NodeId Node(int i) { return NodeId(HashBytes(std::to_string(i))); }

const std::vector<NodeId> kThree = {Node(0), Node(1), Node(2)};

TEST_CASE("steps are dealt in proportion to speed: the fastest takes all") {
  StepShares shares;
  CHECK(shares.Deal(kThree, 50) == Shares{50, 50, 50});
  shares.Learn(Node(0), 50, 10);
  CHECK(shares.Deal(kThree, 50) == Shares{50, 50, 50});  // of the others nothing is known
  shares.Learn(Node(1), 50, 30);
  shares.Learn(Node(2), 25, 10);
  CHECK(shares.Deal(kThree, 50) == Shares{50, 16, 25});
  CHECK(shares.Deal(absl::MakeSpan(kThree).subspan(1), 50) == Shares{33, 50});  // 0.6 s and 0.4 s a step
  CHECK(shares.Deal(kThree, 1) == Shares{1, 1, 1});
}

TEST_CASE("nodes that differ by what rounds differ by take as many") {
  StepShares shares;
  shares.Learn(Node(0), 100, 100);
  shares.Learn(Node(1), 100, 104.9);
  shares.Learn(Node(2), 100, 106);
  CHECK(shares.Deal(kThree, 100) == Shares{100, 100, 94});
}

TEST_CASE("nobody takes fewer than one in eight, however fast another says to be") {
  StepShares shares;
  shares.Learn(Node(0), 1'000'000, 1e-3);
  shares.Learn(Node(1), 50, 10);
  shares.Learn(Node(2), 0, 10);  // say nothing
  shares.Learn(Node(2), 10, 0);
  CHECK(shares.Deal(kThree, 50) == Shares{50, 7, 50});
}

TEST_CASE("the newest round counts for half") {
  StepShares shares;
  shares.Learn(Node(0), 10, 10);
  shares.Learn(Node(1), 10, 90);  // a slow start
  shares.Learn(Node(1), 10, 30);  // 6 s a step
  CHECK(shares.Deal(kThree, 60) == Shares{60, 10, 60});
  shares.Learn(Node(1), 10, 30);  // 4.5 s
  CHECK(shares.Deal(kThree, 60) == Shares{60, 13, 60});
}

}  // namespace
}  // namespace gdf::schedule
