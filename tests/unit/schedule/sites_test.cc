#include "core/schedule/sites.h"

#include <catch2/catch.hpp>

#include "core/base/hash.h"

namespace gdf::schedule {
namespace {

NodeId Id(int i) { return NodeId(HashBytes("node " + std::to_string(i))); }

TEST_CASE("members of a site are all near each other, as both ends say") {
  Sites sites;
  const std::vector<NodeId> members = {Id(0), Id(1), Id(2), Id(3), Id(4)};
  CHECK(sites.Of(members) == std::vector<uint32_t>{0, 1, 2, 3, 4});  // nothing is known
  sites.Learn(Id(0), {Id(3), Id(9)});
  CHECK(sites.Of(members) == std::vector<uint32_t>{0, 1, 2, 3, 4});  // one end alone says it
  sites.Learn(Id(3), {Id(0), Id(4)});
  sites.Learn(Id(4), {Id(3)});
  sites.Learn(Id(1), {Id(2)});
  sites.Learn(Id(2), {Id(1)});
  // 4 is near 3 but not near 0, which came first.
  CHECK(sites.Of(members) == std::vector<uint32_t>{0, 1, 1, 0, 2});
  CHECK(sites.Of({Id(2), Id(1)}) == std::vector<uint32_t>{0, 0});
  sites.Learn(Id(3), {});  // it has moved
  CHECK(sites.Of(members) == std::vector<uint32_t>{0, 1, 1, 2, 3});
}

TEST_CASE("going by sites is worth it with several, one of them of several members") {
  CHECK_FALSE(WorthGoingBySites({}));
  CHECK_FALSE(WorthGoingBySites({0}));
  CHECK_FALSE(WorthGoingBySites({0, 0, 0}));
  CHECK_FALSE(WorthGoingBySites({0, 1, 2}));
  CHECK(WorthGoingBySites({0, 1, 0}));
}

}  // namespace
}  // namespace gdf::schedule
