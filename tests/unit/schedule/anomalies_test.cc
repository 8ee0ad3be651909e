#include "core/schedule/anomalies.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "core/base/hash.h"

namespace gdf::schedule {
namespace {

using Report = Anomalies::Report;
using Names = std::vector<int>;

NodeId Node(int i) { return NodeId(HashBytes(std::to_string(i))); }

std::vector<Report> Norms(const std::vector<double>& norms) {
  std::vector<Report> reports;
  for (size_t i = 0; i < norms.size(); ++i) reports.push_back({Node(static_cast<int>(i)), 50, norms[i], 2.0});
  return reports;
}

std::vector<Report> Losses(const std::vector<double>& losses) {
  std::vector<Report> reports;
  for (size_t i = 0; i < losses.size(); ++i) reports.push_back({Node(static_cast<int>(i)), 50, 1.0, losses[i]});
  return reports;
}

Names LeftOut(const Anomalies& anomalies, const std::vector<Report>& reports, uint64_t fragment = 0) {
  Names names;
  for (const auto& [node, why] : anomalies.Judge(fragment, reports)) {
    UNSCOPED_INFO(why);
    for (int i = 0; i < 10; ++i) {
      if (Node(i) == node) names.push_back(i);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST_CASE("a norm far above the median of three or more is left out, one below is not") {
  struct Case {
    std::vector<double> norms;
    Names left_out;
  };
  const Anomalies anomalies{config::AnomaliesSpec{}};
  for (const Case& c : {
           Case{{1, 1, 1, 1}, {}},
           Case{{1, 1, 1, 9.9}, {}},        // the limit is 10 times
           Case{{1, 1, 1, 10.1}, {3}},
           Case{{1, 1.1, 0.9, 1e9}, {3}},
           Case{{100, 1, 1}, {0}},
           Case{{100, 200, 1, 1, 1}, {0, 1}},
           Case{{1e-9, 1, 1, 1}, {}},       // does no harm
           Case{{0, 0, 0, 1}, {}},          // one with a length is no group
           Case{{1, 100}, {}},              // of two nothing is known yet
           Case{{1e6}, {}},
           // ln: 0, 0.5, 1, 1.5, 2, 6; median 1, deviations 1, 0.5, 0, 0.5, 1, 5: σ = 1.4826 · 0.5, and 6 σ = 4.4 is below 5
           Case{{1, std::exp(0.5), std::exp(1), std::exp(1.5), std::exp(2), std::exp(6)}, {5}},
           Case{{1, std::exp(0.5), std::exp(1), std::exp(1.5), std::exp(2), std::exp(5)}, {}},
       }) {
    CHECK(LeftOut(anomalies, Norms(c.norms)) == c.left_out);
  }
}

TEST_CASE("a node's own rounds before count too: with two members alone, with more besides") {
  Anomalies anomalies{config::AnomaliesSpec{}};
  for (size_t round = 0; round < Anomalies::kFew; ++round) {
    CHECK(LeftOut(anomalies, Norms({1, 100})).empty());
    anomalies.Learn(0, Norms({1, 100}), {});
  }
  CHECK(LeftOut(anomalies, Norms({1, 100})).empty());
  CHECK(LeftOut(anomalies, Norms({1, 1100})) == Names{1});
  CHECK(LeftOut(anomalies, Norms({50, 100})) == Names{0});
  CHECK(LeftOut(anomalies, Norms({50, 1100})).empty());  // both: no one node's fault
  CHECK(LeftOut(anomalies, Norms({1100})).empty());
  CHECK(LeftOut(anomalies, Norms({1, 1100}), 1).empty());  // of another fragment nothing is known
  // A residual that has grown with time: 100 times the others', but not its own.
  CHECK(LeftOut(anomalies, Norms({1, 100, 1, 1})).empty());
  CHECK(LeftOut(anomalies, Norms({1, 1100, 1, 1})) == Names{1});
}

TEST_CASE("what was left out is not learned") {
  Anomalies anomalies{config::AnomaliesSpec{}};
  for (int round = 0; round < 40; ++round) {
    const std::vector<Report> reports = Norms({1, 1, 1, round < 4 ? 1.0 : 1000.0});
    const auto left_out = anomalies.Judge(0, reports);
    CHECK(left_out.size() == (round < 4 ? size_t{0} : size_t{1}));
    anomalies.Learn(0, reports, left_out);
  }
}

TEST_CASE("a delta of fewer steps is as long as it should be, and no longer") {
  const Anomalies anomalies{config::AnomaliesSpec{}};
  // By drift one of 2 steps is a hundredth of one of 200, by noise a tenth.
  for (const double norm : {0.01, 0.1}) {
    CHECK(LeftOut(anomalies, {{Node(0), 200, 1, 2}, {Node(1), 200, 1, 2}, {Node(2), 200, 1, 2}, {Node(3), 2, norm, 2}}).empty());
  }
  CHECK(LeftOut(anomalies, {{Node(0), 2, 1, 2}, {Node(1), 2, 1, 2}, {Node(2), 2, 1, 2}, {Node(3), 200, 100, 2}}).empty());
  CHECK(LeftOut(anomalies, {{Node(0), 200, 1, 2}, {Node(1), 200, 1, 2}, {Node(2), 200, 1, 2}, {Node(3), 2, 2, 2}}) == Names{3});
}

TEST_CASE("a loss that jumps from its own before, beyond what those of the others do, is left out") {
  Anomalies anomalies{config::AnomaliesSpec{}};
  CHECK(LeftOut(anomalies, Losses({4, 4, 40})).empty());
  for (const double loss : {4.0, 3.0, 2.5, 2.2}) anomalies.Learn(0, Losses({loss, loss, loss}), {});
  // Median 2.5 (the lower of two), deviations 0, 0.3, 0.5, 1.5: σ = 1.4826 · 0.3, 6 σ = 2.67.
  CHECK(LeftOut(anomalies, Losses({2, 2, 5.1})).empty());
  CHECK(LeftOut(anomalies, Losses({2, 2, 5.2})) == Names{2});
  CHECK(LeftOut(anomalies, Losses({5, 5, 5.2})).empty());
  CHECK(LeftOut(anomalies, Losses({9, 9, 9})).empty());
  CHECK(LeftOut(anomalies, Losses({2, 9})) == Names{1});
  CHECK(LeftOut(anomalies, Losses({9})).empty());
  for (int round = 0; round < 16; ++round) anomalies.Learn(0, Losses({2, 2, 2}), {});
  CHECK(LeftOut(anomalies, Losses({2, 2, 2.9})).empty());  // the limit is 1
  CHECK(LeftOut(anomalies, Losses({2, 2, 3.1})) == Names{2});
}

TEST_CASE("0 has nothing looked at") {
  config::AnomaliesSpec off;
  off.delta_norm = off.loss_jump = 0;
  off.node_rounds = 0;
  Anomalies anomalies{off};
  for (int round = 0; round < 10; ++round) anomalies.Learn(0, Losses({2, 2, 2}), {});
  CHECK(LeftOut(anomalies, Norms({1, 1, 1, 1e9})).empty());
  CHECK(LeftOut(anomalies, Losses({2, 2, 50})).empty());
  for (uint64_t round = 0; round < 20; ++round) CHECK_FALSE(anomalies.Strike(Node(0), RoundId{round}, "nan"));
  for (uint64_t round = 0; round < 10; ++round) CHECK_FALSE(anomalies.JudgeModel(RoundId{round}, round < 5 ? 2 : 90));
}

TEST_CASE("a node is at fault too often in three rounds of twenty, each counted once") {
  Anomalies anomalies{config::AnomaliesSpec{}};
  CHECK_FALSE(anomalies.Strike(Node(0), RoundId{1}, "nan"));
  CHECK_FALSE(anomalies.Strike(Node(0), RoundId{1}, "nan"));
  CHECK_FALSE(anomalies.Strike(Node(0), RoundId{10}, "nan"));
  CHECK_FALSE(anomalies.Strike(Node(1), RoundId{10}, "nan"));
  CHECK_FALSE(anomalies.Strike(Node(0), RoundId{21}, "nan"));  // round 1 is 20 rounds ago
  CHECK(anomalies.Strike(Node(0), RoundId{22}, "its loss jumped") ==
        std::optional<std::string>("it was at fault in 3 rounds of the last 20; last: its loss jumped"));
}

TEST_CASE("a model has gone wrong when three rounds in a row are far above those before") {
  Anomalies anomalies{config::AnomaliesSpec{}};
  CHECK_FALSE(anomalies.knows_model());
  CHECK_FALSE(anomalies.last_good());
  uint64_t round = 0;
  const auto after = [&](double loss) { return anomalies.JudgeModel(RoundId{round++}, loss); };
  for (const double loss : {10.0, 4.2, 3.0, 2.6, 2.4, 2.3, 2.2, 2.2}) CHECK_FALSE(after(loss));
  CHECK(anomalies.knows_model());
  CHECK(anomalies.last_good() == RoundId{7});
  CHECK_FALSE(anomalies.JudgeModel(RoundId{7}, 90));  // is known already
  CHECK_FALSE(after(9));
  CHECK_FALSE(after(9));
  CHECK_FALSE(after(2.2));  // it has come back by itself
  CHECK_FALSE(after(9));
  CHECK_FALSE(after(9));
  CHECK(anomalies.last_good() == RoundId{10});
  CHECK(after(9.5) == std::optional<std::string>(
                          "the members' mean loss, 9.5, is far above that of the rounds before, 2.4, for 3 rounds"));
  CHECK(after(9.5));
  CHECK(anomalies.last_good() == RoundId{10});
}

}  // namespace
}  // namespace gdf::schedule
