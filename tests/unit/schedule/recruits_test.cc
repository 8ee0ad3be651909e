#include "core/schedule/recruits.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/algorithm/container.h"
#include "core/base/hash.h"

namespace gdf::schedule {
namespace {

constexpr JobId kJob{3};

NodeId Node(int i) { return NodeId(HashBytes(std::to_string(i))); }
const NodeId kA = Node(1), kB = Node(2), kC = Node(3);

Recruits::Vacancy VacancyOf(size_t places, std::vector<NodeId> was_member = {}) {
  return {kJob, places, {kA, kB, kC}, std::move(was_member)};
}

TEST_CASE("as many are called as there are places, the most suitable first, but those who were members before all") {
  const Recruits recruits;
  using Nodes = std::vector<NodeId>;
  CHECK(recruits.Choose(VacancyOf(0), {}).empty());
  CHECK(recruits.Choose(VacancyOf(2), {}) == Nodes{kA, kB});
  CHECK(recruits.Choose(VacancyOf(9), {}) == Nodes{kA, kB, kC});
  CHECK(recruits.Choose(VacancyOf(2, {kC}), {}) == Nodes{kC, kA});
}

TEST_CASE("who leaves again and again is called later and later, until it has stayed for long") {
  Recruits recruits;
  absl::Duration now = absl::Hours(1);
  const auto called = [&] { return absl::c_linear_search(recruits.Choose(VacancyOf(3), now), kA); };
  const auto comes_and_goes = [&](absl::Duration stays) {
    recruits.Follow(kJob, {kA}, now);
    CHECK_FALSE(called());
    now += stays;
    recruits.Follow(kJob, {}, now);
  };
  comes_and_goes(absl::Minutes(1));
  CHECK(called());
  CHECK(recruits.Next(now) == absl::InfiniteDuration());
  for (absl::Duration pause : {Recruits::kFirstPause, 2 * Recruits::kFirstPause, 4 * Recruits::kFirstPause}) {
    comes_and_goes(absl::Minutes(1));
    CHECK_FALSE(called());
    CHECK(recruits.Next(now) == now + pause);
    now += pause - absl::Milliseconds(1);
    CHECK_FALSE(called());
    now += absl::Milliseconds(1);
    CHECK(called());
  }
  for (int i = 0; i < 100; ++i) comes_and_goes(absl::Minutes(1));
  CHECK(recruits.Next(now) == now + Recruits::kLongestPause);
  comes_and_goes(Recruits::kForgotten);
  CHECK(called());
  comes_and_goes(absl::Minutes(1));
  CHECK(recruits.Next(now) == now + Recruits::kFirstPause);
  recruits.Keep({JobId{1}, kJob});
  CHECK_FALSE(called());
  recruits.Keep({JobId{1}});
  CHECK(called());
}

}  // namespace
}  // namespace gdf::schedule
