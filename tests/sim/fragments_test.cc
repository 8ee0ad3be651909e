// Rounds that exchange one fragment of the parameters each, and during whose exchange the nodes train on.
#include <catch2/catch.hpp>

#include "tests/sim/exchange_faults.h"

namespace gdf::sim {
namespace {

// The fixture of torchft's diloco_regression_test: two replicas, two fragments, gradient 2 with inner SGD 1, outer SGD 2,
// every fragment exchanged every 6 steps.
JobOptions Fixture() {
  JobOptions options;
  options.nodes = 2;
  options.num_params = 2 * train::Fragments::kUnit;
  options.fragments = 2;
  options.inner_steps = 3;
  options.rounds = 4;
  options.codecs = {{config::CodecKind::kFp32, 0}};
  options.outer = {config::OuterOptimizer::kSgd, 2.0, 0.0};
  options.constant_gradient = 2.0f;
  return options;
}

// Local weights of a fragment before steps 0 to 9, which must be one number each, the same on both nodes.
std::vector<std::vector<float>> WeightsPerStep(JobOptions options) {
  std::vector<std::vector<float>> weights(2);
  const train::Fragments fragments = *train::Fragments::Create(options.num_params, 2);
  SimJob job(5, options);
  job.set_before_step([&](int node, int64_t step, absl::Span<const float> local) {
    for (uint64_t i = 0; i < 2; ++i) {
      const absl::Span<const float> part = fragments.Slice(local, i);
      const size_t at = static_cast<size_t>(step);
      if (at >= 10) return;
      if (weights[i].size() == at) weights[i].push_back(part[0]);
      INFO("node " << node << " step " << step << " fragment " << i);
      REQUIRE(weights[i].size() > at);
      CHECK(std::all_of(part.begin(), part.end(), [&](float value) { return value == weights[i][at]; }));
    }
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");
  return weights;
}

using Trace = std::vector<float>;

TEST_CASE("weights go as in torchft's fixtures, with and without a delay") {
  JobOptions options = Fixture();
  SECTION("delay 0, mixing 0") {
    const auto weights = WeightsPerStep(options);
    CHECK(weights[0] == Trace{1, -1, -3, -11, -13, -15, -17, -19, -21, -35});
    CHECK(weights[1] == Trace{1, -1, -3, -5, -7, -9, -23, -25, -27, -29});  // 1 - 2 * 12 after step 6
  }
  SECTION("delay 1, mixing 0.5") {
    options.delay_steps = 1;
    options.mixing = 0.5;
    const auto weights = WeightsPerStep(options);
    CHECK(weights[0] == Trace{1, -1, -3, -6, -8, -10, -12, -14, -16, -21.5});
    CHECK(weights[1] == Trace{1, -1, -3, -5, -7, -9, -15, -17, -19, -21});  // (1 - 2 * 10 - 11) / 2 after step 6
  }
  // The rest by hand: w' = w - 2 (w - l) for the outer step, then (1 - mixing) w' + mixing l.
  SECTION("delay 0, mixing 0.5") {
    options.mixing = 0.5;
    CHECK(WeightsPerStep(options)[0] == Trace{1, -1, -3, -8, -10, -12, -14, -16, -18, -24.5});
  }
  SECTION("delay 1, mixing 0") {
    options.delay_steps = 1;
    CHECK(WeightsPerStep(options)[0] == Trace{1, -1, -3, -7, -9, -11, -13, -15, -17, -27});
  }
}

JobOptions FourNodes() {
  JobOptions options;
  options.num_params = 9001;
  options.fragments = 3;
  options.inner_steps = 5;
  options.delay_steps = 3;
  options.mixing = 0.5;
  options.rounds = 7;
  return options;
}

TEST_CASE("every round changes its fragment alone, and all nodes agree on every state") {
  SimJob job(6, FourNodes());
  job.Start();
  REQUIRE(job.RunToEnd());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");  // each state is the outer step of one fragment, by arithmetic written out
  for (int node = 0; node < job.size(); ++node) {
    const std::map<RoundId, CommittedRound> rounds = job.Committed(node);
    REQUIRE(rounds.size() == 8);
    for (uint64_t round = 1; round <= 7; ++round) {
      const CommittedRound& committed = rounds.at(RoundId{round});
      CHECK(committed.state->id == job.Committed(0).at(RoundId{round}).state->id);
      const train::Fragments fragments = *train::Fragments::Create(9001, 3);
      const absl::Span<const float> changed = fragments.Slice(committed.state->theta.span(), (round - 1) % 3);
      CHECK(committed.commit->receipt.fragment == MerkleRoot(tensor::AsBytes(changed)));
      CHECK(job.reports()[round - 1].metrics.fragment == committed.commit->receipt.fragment);
      CHECK(committed.commit->receipt.contributions.size() == 4);
      // A round's report has the steps since the one before: 2 first, then 5; the last round has no delay.
      for (const wire::Contribution& c : committed.commit->receipt.contributions) {
        CHECK(c.tokens == 32 * (round == 1 ? 2 : round == 7 ? 8 : 5));
      }
      CHECK(committed.state->id.cursor.position == static_cast<int64_t>(round * 5 * 4));
    }
  }
}

absl::Duration TimeOf(JobOptions options) {
  SimJob job(7, options);
  job.Start();
  REQUIRE(job.RunToEnd());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");
  return job.executor().Monotonic();
}

TEST_CASE("what a round waits for is hidden behind the steps of the delay") {
  JobOptions options = FourNodes();
  options.rounds = 30;
  options.inner_steps = 20;
  options.network.max_delay = absl::Milliseconds(150);
  options.delay_steps = 0;
  const absl::Duration alone = TimeOf(options);
  options.delay_steps = 19;
  const absl::Duration overlapped = TimeOf(options);
  options.delay_steps = 0;
  options.network.max_delay = absl::Milliseconds(1);
  const absl::Duration steps = TimeOf(options);  // hardly anything else
  INFO(alone << ", overlapped " << overlapped << ", steps " << steps);
  CHECK(alone > 1.3 * steps);
  CHECK(overlapped < 1.1 * steps);
}

TEST_CASE("a node that dies at any moment of a round holds the others up no longer than its lead's place is kept") {
  const int victim = GENERATE(0, 2);  // the lead, and another
  JobOptions options = FourNodes();
  options.rounds = 12;
  for (uint64_t number = 60; number < 240; number += 12) {
    CAPTURE(victim, number);
    SimJob job(100 + number, options);
    std::optional<absl::Duration> last;  // round since the loss, or that
    absl::Duration longest;
    job.network().set_on_message([&](const SimMessage& message) {
      if (message.number != number) return;
      last = job.executor().Monotonic();
      job.Crash(victim);
    });
    job.set_on_report([&](const wire::ReportJob&) {
      if (!last) return;
      const absl::Duration before = *std::exchange(last, job.executor().Monotonic());
      longest = std::max(longest, *last - before);
    });
    job.Start();
    REQUIRE(job.RunToEnd());
    CHECK(job.verdict() == wire::Verdict::kSucceeded);
    CHECK(job.Violations() == "");
    REQUIRE(last);
    // Of which the round itself takes 1 s.
    CHECK(longest < (victim == 0 ? rounds::RoundTimings{}.lead_down : absl::ZeroDuration()) + absl::Seconds(3));
  }
}

TEST_CASE("a node whose outer step is another is told which fragment differs, and is out") {
  JobOptions options = FourNodes();
  SimJob job(9, options);
  job.set_outer(2, {config::OuterOptimizer::kNesterov, 0.5, options.outer.momentum});
  job.Start();
  REQUIRE(job.RunToEnd());
  INFO(job.reason());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.HasEvent("round 1 lost node " + job.id(2).Short() + ": its result differs in fragment 1 of 3"));
  CHECK_FALSE(job.epoch().Has(job.id(2)));
  CHECK(job.Violations() == "");
}

TEST_CASE("two nodes that do not agree are told in which fragment, and the job ends when they never do") {
  JobOptions options = FourNodes();
  options.nodes = 2;
  SimJob job(10, options);
  job.set_outer(1, {config::OuterOptimizer::kNesterov, 0.5, options.outer.momentum});
  job.Start();
  REQUIRE(job.RunToEnd());
  CHECK(job.HasEvent("waiting: the members do not agree on the result of round 1: those of node "));
  CHECK(job.verdict() == wire::Verdict::kFailed);
  CHECK(job.reason().find("no round was committed for ") == 0);
  CHECK(job.reason().find("; last: the members do not agree on the result of round 1: those of node ") != std::string::npos);
  CHECK(job.reason().find(" differ in fragment 1 of 3") != std::string::npos);
  CHECK(job.Violations() == "");
}

TEST_CASE("two nodes that do not agree wait until they do") {
  JobOptions options = FourNodes();
  options.nodes = 2;
  SimJob job(10, options);
  job.set_outer(1, {config::OuterOptimizer::kNesterov, 0.5, options.outer.momentum});
  job.Start();
  job.executor().PostAfter(absl::Seconds(30), [&] {
    CHECK(job.HasEvent("waiting: the members do not agree on the result of round 1: those of node "));
    job.Crash(1);
    job.set_outer(1, options.outer);
    job.Restart(1);
  });
  REQUIRE(job.RunToEnd());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.reports().size() == 7);
  CHECK(job.Violations() == "");
}

TEST_CASE("a state that is damaged in a node's memory is fetched again, and what was trained from it is not used") {
  const int victim = GENERATE(0, 1);  // the lead, and the other
  JobOptions options = FourNodes();
  options.nodes = 2;
  SimJob job(11, options);
  job.set_on_report([&](const wire::ReportJob& report) {
    if (report.round != RoundId{2}) return;
    float* theta = const_cast<float*>(job.member(victim)->state()->theta.span().data());
    for (size_t i = 0; i < options.num_params; i += 1000) theta[i] *= 2;
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  CHECK(job.HasEvent("is damaged in this node's memory"));
  CHECK(job.HasEvent("the members agree on the result of round 4 now"));
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.reports().size() == 7);
  CHECK(job.Violations() == "");
}

TEST_CASE("a node that is lost during the delay comes back with theta alone, and the job goes on") {
  JobOptions options = FourNodes();
  options.rounds = 40;
  SimJob job(8, options);
  bool crashed = false;
  job.network().set_on_message([&](const SimMessage& message) {
    if (crashed || !IsOfExchange(message) || job.Committed(0).size() < 3) return;
    crashed = true;
    job.Crash(2);
    job.executor().PostAfter(absl::Seconds(3), [&] { job.Restart(2); });
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  INFO(job.reason());
  CHECK(crashed);
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");
  CHECK(job.Committed(2).at(RoundId{40}).commit->receipt.Contributed(job.id(2)));
}

}  // namespace
}  // namespace gdf::sim
