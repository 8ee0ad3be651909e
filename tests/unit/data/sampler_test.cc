#include "core/data/sampler.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace gdf::data {
namespace {

using Catch::Matchers::Contains;

SamplerOptions Options(int64_t corpus_len, int64_t seq_len, int64_t member, int64_t members,
                       SamplePolicy policy = SamplePolicy::kRandom) {
  return {corpus_len, seq_len, /*seed=*/7, member, members, policy};
}

Sampler Make(const SamplerOptions& options, Cursor cursor = {}) {
  auto sampler = Sampler::Create(options, cursor);
  REQUIRE(sampler.ok());
  return *sampler;
}

std::vector<int64_t> Draw(Sampler& sampler, size_t count) {
  std::vector<int64_t> starts(count);
  sampler.Next(absl::MakeSpan(starts));
  return starts;
}

TEST_CASE("data: an epoch of one member is every window once") {
  // 1009 tokens, windows of 9 + 1: starts 0 to 999.
  Sampler sampler = Make(Options(1009, 9, 0, 1));
  REQUIRE(sampler.windows_per_epoch() == 1000);
  std::vector<int64_t> all(1000);
  std::iota(all.begin(), all.end(), 0);
  std::vector<int64_t> first = Draw(sampler, 1000);
  std::vector<int64_t> second = Draw(sampler, 1000);
  CHECK(sampler.cursor() == Cursor{1, 1000});
  CHECK(first != all);
  CHECK(first != second);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  CHECK(first == all);
  CHECK(second == all);
}

TEST_CASE("data: every corpus size is permuted completely") {
  for (int64_t windows = 1; windows <= 70; ++windows) {
    Sampler sampler = Make(Options(windows + 3, 3, 0, 1));
    const std::vector<int64_t> starts = Draw(sampler, static_cast<size_t>(windows));
    CHECK(std::set<int64_t>(starts.begin(), starts.end()).size() == static_cast<size_t>(windows));
    CHECK(*std::min_element(starts.begin(), starts.end()) == 0);
    CHECK(*std::max_element(starts.begin(), starts.end()) == windows - 1);
  }
}

TEST_CASE("data: members are disjoint and cover the epoch but for a rest smaller than they are") {
  for (const SamplePolicy policy : {SamplePolicy::kRandom, SamplePolicy::kSequential}) {
    for (const int64_t members : {2, 3, 7}) {
      std::set<int64_t> seen;
      int64_t windows = 0;
      for (int64_t member = 0; member < members; ++member) {
        Sampler sampler = Make(Options(500, 4, member, members, policy));
        windows = sampler.windows_per_epoch();
        for (int64_t i = 0; i < windows / members; ++i) {
          CHECK(seen.insert(sampler.Next()).second);
          CHECK(sampler.cursor().epoch == 0);
        }
        sampler.Next();
        CHECK(sampler.cursor() == Cursor{1, members});
      }
      CHECK(static_cast<int64_t>(seen.size()) == windows / members * members);
    }
  }
}

TEST_CASE("data: a stream repeats from its cursor, and another seed is another stream") {
  Sampler sampler = Make(Options(1000, 10, 1, 3));
  Draw(sampler, 500);  // into the second epoch: 990 windows are 330 rows
  const Cursor cursor = sampler.cursor();
  CHECK(cursor == Cursor{1, 510});
  const std::vector<int64_t> expected = Draw(sampler, 100);
  Sampler again = Make(Options(1000, 10, 1, 3), cursor);
  CHECK(Draw(again, 100) == expected);
  SamplerOptions other = Options(1000, 10, 1, 3);
  other.seed = 8;
  Sampler different = Make(other, cursor);
  CHECK(Draw(different, 100) != expected);
}

TEST_CASE("data: members that come and go draw nothing twice in an epoch") {
  std::set<int64_t> seen;
  Cursor cursor;
  const auto draw_all = [&](int64_t members, size_t each) {
    Cursor greatest = cursor;
    for (int64_t member = 0; member < members; ++member) {
      Sampler sampler = Make(Options(2000, 5, member, members), cursor);
      for (const int64_t start : Draw(sampler, each)) CHECK(seen.insert(start).second);
      greatest = std::max(greatest, sampler.cursor());
    }
    cursor = greatest;
  };
  draw_all(4, 100);
  draw_all(3, 100);
  draw_all(5, 100);
  CHECK(cursor == Cursor{0, 1200});
  CHECK(seen.size() == 1200);
}

TEST_CASE("data: sequential windows follow each other") {
  // 21 tokens, windows of 4 + 1: starts 0, 4, 8, 12, 16.
  Sampler first = Make(Options(21, 4, 0, 2, SamplePolicy::kSequential));
  Sampler second = Make(Options(21, 4, 1, 2, SamplePolicy::kSequential));
  CHECK(first.windows_per_epoch() == 5);
  CHECK(Draw(first, 4) == std::vector<int64_t>{0, 8, 0, 8});
  CHECK(Draw(second, 4) == std::vector<int64_t>{4, 12, 4, 12});
}

TEST_CASE("data: random starts are spread evenly") {
  // Chi-square over 16 bins of 4096 draws without replacement from 65536 starts: below the 99.99 %
  // point of 15 degrees of freedom, 44.3.
  Sampler sampler = Make(Options(65536 + 64, 64, 0, 1));
  std::vector<double> bins(16);
  for (const int64_t start : Draw(sampler, 4096)) ++bins[static_cast<size_t>(start / 4096)];
  double chi_square = 0;
  for (const double bin : bins) chi_square += (bin - 256) * (bin - 256) / 256;
  CHECK(chi_square < 44.3);
}

TEST_CASE("data: impossible samplers are refused") {
  const auto error = [](const SamplerOptions& options, Cursor cursor = {}) {
    return Sampler::Create(options, cursor).status().ToString();
  };
  CHECK_THAT(error(Options(10, 10, 0, 1)), Contains("has 10 tokens; a window takes 11"));
  CHECK_THAT(error(Options(11, 10, 0, 2)), Contains("1 windows") && Contains("2 members"));
  CHECK_THAT(error(Options(100, 10, 2, 2)), Contains("member 2 of 2"));
  CHECK_THAT(error(Options(100, 10, 0, 0)), Contains("member 0 of 0"));
  CHECK_THAT(error(Options(100, 0, 0, 1)), Contains("sequence length 0"));
  CHECK_THAT(error(Options(100, 10, 0, 1), {0, 91}), Contains("position 91"));
  CHECK_THAT(error(Options(100, 10, 0, 1), {-1, 0}), Contains("epoch -1"));
}

TEST_CASE("data: validation windows count every target once") {
  CHECK(AllEvalWindows(9, 4) == std::vector<EvalWindow>{{0, 0}, {4, 0}});
  CHECK(AllEvalWindows(11, 4) == std::vector<EvalWindow>{{0, 0}, {4, 0}, {6, 2}});
  CHECK(AllEvalWindows(4, 4).empty());
  for (int64_t length = 5; length < 60; ++length) {
    std::vector<int> counted(static_cast<size_t>(length));
    for (const EvalWindow& window : AllEvalWindows(length, 4)) {
      for (int64_t t = window.skip; t < 4; ++t)
        ++counted.at(static_cast<size_t>(window.start + t + 1));
    }
    CHECK(counted[0] == 0);
    CHECK(std::count(counted.begin(), counted.end(), 1) == length - 1);
  }
}

TEST_CASE("data: quick validation windows are spread over all") {
  // 41 tokens: windows at 0, 4, ..., 36; four of ten: the 0th, 2nd, 5th and 7th.
  CHECK(QuickEvalWindows(41, 4, 4) == std::vector<EvalWindow>{{0, 0}, {8, 0}, {20, 0}, {28, 0}});
  CHECK(QuickEvalWindows(41, 4, 100) == AllEvalWindows(41, 4));
  CHECK(QuickEvalWindows(41, 4, 0).empty());
}

TEST_CASE("data: windows are copied as inputs and targets") {
  const std::vector<int32_t> tokens = {10, 11, 12, 13, 14};
  std::vector<int64_t> inputs(4), targets(4);
  CopyWindows(tokens, {2, 0}, 2, absl::MakeSpan(inputs), absl::MakeSpan(targets));
  CHECK(inputs == std::vector<int64_t>{12, 13, 10, 11});
  CHECK(targets == std::vector<int64_t>{13, 14, 11, 12});
}

}  // namespace
}  // namespace gdf::data
