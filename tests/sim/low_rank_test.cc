// Rounds of two passes, in which deltas go as low-rank factors.
#include <catch2/catch.hpp>

#include "tests/sim/exchange_faults.h"

namespace gdf::sim {
namespace {

JobOptions TwoPasses() {
  JobOptions options;
  options.codecs = {{config::CodecKind::kFp32}};
  options.rank = 2;
  options.inner_steps = 2;
  options.rounds = 1;
  return options;
}

TEST_CASE("a job of low-rank rounds ends with every node's factors in the result, and with less loss") {
  for (const config::OuterSpec& outer : {config::OuterSpec{config::OuterOptimizer::kNesterov, 0.2, 0.5},
                                         config::OuterSpec{config::OuterOptimizer::kSgd, 1.0, 0.0}}) {
    JobOptions options = TwoPasses();
    options.rounds = 12;
    options.outer = outer;
    SimJob job(21, options);
    job.Start();
    REQUIRE(job.RunToEnd());
    CHECK(job.verdict() == wire::Verdict::kSucceeded);
    CHECK(job.Violations() == "");
    const std::map<RoundId, CommittedRound> rounds = job.Committed(1);
    REQUIRE(rounds.size() == 13);
    for (const auto& [round, committed] : rounds) {
      if (round.value == 0) continue;
      CHECK(committed.commit->receipt.contributions.size() == 4);
      // Two exchanges, neither tried again.
      CHECK(committed.commit->receipt.tag.attempt == 2 * round.value);
    }
    SimWorkerOptions problem;
    problem.seed = 21;
    const double begin = SimWorker::Loss(problem, SimWorker::InitialTheta(problem));
    CHECK(SimWorker::Loss(problem, rounds.rbegin()->second.state->theta.span()) < begin / 2);
  }
}

// Messages of both exchanges of a clean run; `first`: of the first alone.
uint64_t MessagesOfExchange(uint64_t seed, uint64_t* first) {
  uint64_t count = 0;
  SimJob job(seed, TwoPasses());
  OnExchangeMessage(job, [&](uint64_t number) { count = number; });
  for (int node = 0; node < job.size(); ++node) {
    job.set_worker_fault(node, [&](std::string_view call, RoundId) {
      if (call == "project" && *first == 0) *first = count;
      return absl::OkStatus();
    });
  }
  job.Start();
  REQUIRE(job.RunToEnd());
  return count;
}

TEST_CASE("a member dies before each message of either pass: the others commit the round at once, of those who gave both") {
  uint64_t first = 0;
  const uint64_t messages = MessagesOfExchange(51, &first);
  REQUIRE(first >= 30);
  REQUIRE(messages >= first + 30);
  for (uint64_t k = 1; k <= messages; ++k) {
    INFO("before message " << k << " of " << messages << ", of which " << first << " are the first pass's");
    SimJob job(51, TwoPasses());
    CHECK(LoseBefore(job, k, [&] { job.Crash(kLost); }).took < absl::Seconds(3));
  }
}

TEST_CASE("the lead dies before each message of either pass: another one finishes the job") {
  uint64_t first = 0;
  const uint64_t messages = MessagesOfExchange(52, &first);
  for (uint64_t k = 1; k <= messages; k += 5) {
    INFO("before message " << k << " of " << messages);
    JobOptions options = TwoPasses();
    options.rounds = 3;
    SimJob job(52, options);
    OnExchangeMessage(job, [&](uint64_t number) {
      if (number == k) job.Crash(0);
    });
    job.Start();
    REQUIRE(job.RunToEnd());
    INFO(job.reason());
    CHECK(job.verdict() == wire::Verdict::kSucceeded);
    CHECK(job.Violations() == "");
  }
}

TEST_CASE("a node whose factors cannot be used gives none, and takes the result") {
  SimJob job(53, TwoPasses());
  job.set_worker_fault(kLost, [](std::string_view call, RoundId) {
    return call == "project" ? absl::FailedPreconditionError("a factor overflows float32") : absl::OkStatus();
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");
  const CommittedRound round = job.Committed(kLost).at(RoundId{1});
  CHECK(round.commit->receipt.contributions.size() == 3);
  CHECK_FALSE(round.commit->receipt.Contributed(job.id(kLost)));
}

TEST_CASE("a node that was away is given the factors with the state, and goes on") {
  JobOptions options = TwoPasses();
  options.rounds = 20;
  options.checkpoint_every = 10;
  SimJob job(54, options);
  bool away = false;
  job.set_on_report([&](const wire::ReportJob& report) {
    if (report.round != RoundId{5} || away) return;
    away = true;
    job.executor().Post([&] {
      job.Crash(kLost);
      job.executor().PostAfter(absl::Seconds(1), [&] { job.Restart(kLost); });
    });
  });
  std::optional<uint64_t> began;
  job.set_say([&](const std::string& what) {
    if (away && what.find("node 2 starts at round ") != std::string::npos) began = what.back() - '0';
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");
  CHECK(began == 0u);  // without a checkpoint of its own
  const std::map<RoundId, CommittedRound> rounds = job.Committed(kLost);
  CHECK(rounds.at(RoundId{10}).commit->receipt.Contributed(job.id(kLost)));
  CHECK(rounds.at(RoundId{20}).commit->receipt.Contributed(job.id(kLost)));
}

}  // namespace
}  // namespace gdf::sim
