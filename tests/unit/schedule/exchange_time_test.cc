// Expected values are arithmetic by hand from docs/collectives.md.
#include "core/schedule/exchange_time.h"

#include <catch2/catch.hpp>
#include <numeric>

namespace gdf::schedule {
namespace {

constexpr double kMbit = 125'000;  // bytes per second

ExchangeLoad Load(size_t members, double rate) {
  ExchangeLoad load;
  load.links.assign(members, {rate, rate});
  load.packed_bytes = 64e6;
  load.rtt = absl::Milliseconds(20);
  load.num_values = 16e6;
  return load;
}

double Seconds(Form form, const ExchangeLoad& load) { return absl::ToDoubleSeconds(ExchangeTime(form, load)); }

TEST_CASE("four equal nodes: slices and means take 2 * 3/4 of the delta, and hops their delay") {
  ExchangeLoad load = Load(4, 100 * kMbit);
  CHECK(Seconds(Form::kDirect, load) == Approx(0.02 + 96e6 / 12.5e6));
  CHECK(Seconds(Form::kRing, load) == Approx(0.06 + 96e6 / 12.5e6));        // six hops
  CHECK(Seconds(Form::kAllGather, load) == Approx(0.02 + 192e6 / 12.5e6));  // three deltas
  CHECK(Seconds(Form::kDirect, Load(1, 1)) == 0);
}

TEST_CASE("the slower direction of the slowest link counts") {
  ExchangeLoad load = Load(4, 100 * kMbit);
  load.links[2] = {10 * kMbit, 100 * kMbit};
  CHECK(Seconds(Form::kDirect, load) == Approx(0.02 + 96e6 / 1.25e6));
  load.links[2] = {0, 20 * kMbit};  // only one is known
  CHECK(Seconds(Form::kDirect, load) == Approx(0.02 + 96e6 / 2.5e6));
  load.links.assign(4, {});
  CHECK(Seconds(Form::kDirect, load) == Approx(0.02));
}

TEST_CASE("coding overlaps with the wire: the longer of both counts") {
  ExchangeLoad load = Load(4, 100 * kMbit);
  load.values_per_sec = 1e9;  // 16e6 values * (4 + 2 + 3) / 4 = 36e6
  CHECK(Seconds(Form::kDirect, load) == Approx(0.02 + 96e6 / 12.5e6));
  load.values_per_sec = 3.6e6;
  CHECK(Seconds(Form::kDirect, load) == Approx(0.02 + 10));
  CHECK(Seconds(Form::kAllGather, load) == Approx(0.02 + 64e6 / 3.6e6));
}

TEST_CASE("a slow node of four owns nothing: it moves one delta instead of one and a half") {
  ExchangeLoad load = Load(4, 100 * kMbit);
  load.links[1] = {10 * kMbit, 10 * kMbit};
  const double equal = Seconds(Form::kDirect, load);
  load.shares = BestShares(load.links, 0.375);
  CHECK(load.shares[1] == Approx(0).margin(1e-9));
  CHECK(load.shares[0] == Approx(1.0 / 3));
  CHECK(equal - 0.02 == Approx(1.5 * (Seconds(Form::kDirect, load) - 0.02)));
}

TEST_CASE("shares let unequal nodes be done together") {
  // Rates 1, 2 and 3: (T - 1) + (2T - 1) + (3T - 1) = 1, so T = 2/3, and the slowest would own less than nothing.
  // Without it (2T - 1) + (3T - 1) = 1: T = 3/5, of which the others own 1/5 and 4/5.
  const std::vector<Link> links = {{1, 1}, {2, 2}, {3, 3}};
  std::vector<double> shares = BestShares(links, 1);
  CHECK(shares[0] == Approx(0).margin(1e-9));
  CHECK(shares[1] == Approx(0.2));
  CHECK(shares[2] == Approx(0.8));
  // Rates 4, 5 and 6: 15 T - 3 = 1, T = 4/15.
  shares = BestShares({{4, 4}, {5, 5}, {6, 6}}, 1);
  CHECK(shares[0] == Approx(1.0 / 15));
  CHECK(shares[1] == Approx(5.0 / 15));
  CHECK(shares[2] == Approx(9.0 / 15));
  // None above the limit; what it leaves the others have.
  shares = BestShares(links, 0.5);
  CHECK(shares[0] == Approx(0).margin(1e-9));
  CHECK(shares[1] == Approx(0.5));
  CHECK(shares[2] == Approx(0.5));
}

TEST_CASE("shares stay equal for two nodes, equal links and links that are not known") {
  CHECK(BestShares({{1, 1}, {9, 9}}, 1) == std::vector<double>{0.5, 0.5});
  CHECK(BestShares({{1, 1}, {2, 2}, {}}, 1) == std::vector<double>(3, 1.0 / 3));
  CHECK(BestShares({{1, 1}, {2, 2}, {3, 3}}, 1.0 / 3) == std::vector<double>(3, 1.0 / 3));
  for (const double share : BestShares(std::vector<Link>(5, {7, 7}), 1)) CHECK(share == Approx(0.2));
}

// docs/adr/0008: each node on a link of its own.
TEST_CASE("a ring is never done before the direct form") {
  const std::vector<double> rates = {1, 10, 100, 1000, 10'000};
  for (size_t members = 2; members <= 16; ++members) {
    for (const double fast : rates) {
      for (const double slow : rates) {
        for (size_t slow_members = 0; slow_members <= members; ++slow_members) {
          for (const double bytes : {1e3, 1e6, 1e9}) {
            ExchangeLoad load = Load(members, fast * kMbit);
            std::fill_n(load.links.begin(), slow_members, Link{slow * kMbit, fast * kMbit});
            load.packed_bytes = bytes;
            CHECK(ExchangeTime(Form::kDirect, load) <= ExchangeTime(Form::kRing, load) + absl::Nanoseconds(10));
            load.shares = BestShares(load.links, 1.5 / static_cast<double>(members));
            CHECK(std::accumulate(load.shares.begin(), load.shares.end(), 0.0) == Approx(1));
            CHECK(ExchangeTime(Form::kDirect, load) <= ExchangeTime(Form::kRing, load) + absl::Nanoseconds(10));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace gdf::schedule
