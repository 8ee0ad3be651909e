#include "core/train/fragments.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

namespace gdf::train {
namespace {

TEST_CASE("fragments cover a buffer in order, whole units each, and differ by one unit at most") {
  for (const uint64_t num_elems : {uint64_t{1}, uint64_t{4096}, uint64_t{4097}, uint64_t{804'096}, uint64_t{1} << 40}) {
    const uint64_t units = (num_elems + Fragments::kUnit - 1) / Fragments::kUnit;
    for (const uint64_t count : {uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{7}, uint64_t{64}, units}) {
      if (count > units || count > 100'000) continue;
      const Fragments fragments = *Fragments::Create(num_elems, count);
      INFO(num_elems << " in " << count);
      CHECK(fragments.begin(0) == 0);
      CHECK(fragments.begin(count) == num_elems);
      uint64_t shortest = num_elems;
      uint64_t longest = 0;
      for (uint64_t i = 0; i < count; ++i) {
        CHECK(fragments.begin(i) % Fragments::kUnit == 0);
        REQUIRE(fragments.size(i) > 0);
        // The last one's last unit need not be full.
        const uint64_t rounded = (fragments.size(i) + Fragments::kUnit - 1) / Fragments::kUnit;
        shortest = std::min(shortest, rounded);
        longest = std::max(longest, rounded);
      }
      CHECK(longest - shortest <= 1);
    }
  }
}

TEST_CASE("nothing is one fragment, and every one of several has elements") {
  const Fragments none = *Fragments::Create(0, 1);
  CHECK(none.size(0) == 0);
  CHECK(Fragments::Create(0, 2).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(Fragments::Create(100, 0).status().code() == absl::StatusCode::kInvalidArgument);
  CHECK(std::string(Fragments::Create(8192, 3).status().message()) ==
        "8192 parameters in 3 fragments, expected 1 to 2 of 4096 or more");
  CHECK(Fragments::Create(8193, 3).ok());
}

}  // namespace
}  // namespace gdf::train
