// Nodes whose deltas, losses or results are wrong: rounds go on without them, and so does the job when it happens again.
#include <catch2/catch.hpp>
#include <set>

#include "tests/sim/sim_job.h"

namespace gdf::sim {
namespace {

void CheckSucceeded(SimJob& job) {
  REQUIRE(job.finished());
  INFO(job.reason());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");
}

wire::Receipt ReceiptOf(SimJob& job, int node, uint64_t round) {
  return job.Committed(node).at(RoundId{round + 1}).commit->receipt;
}

JobOptions Rounds(int64_t rounds) {
  JobOptions options;
  options.rounds = rounds;
  options.num_params = 300;
  return options;
}

// Its deltas are a thousand times too long in these rounds.
WorkerTrouble TooLong(std::set<uint64_t> rounds) {
  return {.delta_times = [rounds](RoundId round) { return rounds.count(round.value) > 0 ? 1000.0f : 1.0f; }};
}

TEST_CASE("a delta far longer than the others' is left out, and does not come with the next one either") {
  JobOptions options = Rounds(4);
  SECTION("as int8, with error feedback") {}
  SECTION("as factors") {
    options.codecs = {{config::CodecKind::kFp32}};
    options.rank = 2;
  }
  SimJob job(71, options);
  job.set_worker_trouble(2, TooLong({1}));
  job.Start();
  REQUIRE(job.RunToEnd());
  CheckSucceeded(job);
  CHECK(job.epoch().epoch == Epoch{1});
  CHECK(ReceiptOf(job, 0, 0).contributions.size() == 4);
  CHECK_FALSE(ReceiptOf(job, 0, 1).Contributed(job.id(2)));
  CHECK(ReceiptOf(job, 0, 1).contributions.size() == 3);
  CHECK(ReceiptOf(job, 0, 2).contributions.size() == 4);
  CHECK(ReceiptOf(job, 0, 3).contributions.size() == 4);
  CHECK(job.HasEvent("round 2 is without the delta of node " + job.id(2).Short() + ": the norm of its delta, "));
}

TEST_CASE("a delta of a norm that no message can carry is left out as well, and does not come with the next one") {
  SimJob job(70, Rounds(4));
  job.set_worker_trouble(2, {.delta_times = [](RoundId round) { return round.value == 1 ? 1e32f : 1.0f; }});
  job.Start();
  REQUIRE(job.RunToEnd());
  CheckSucceeded(job);
  CHECK_FALSE(ReceiptOf(job, 0, 1).Contributed(job.id(2)));
  CHECK(ReceiptOf(job, 0, 2).contributions.size() == 4);
  CHECK(job.HasEvent("round 2 is without the delta of node " + job.id(2).Short() + ": the delta's norm "));
}

TEST_CASE("of two nodes the one whose delta is far longer than its own before is left out") {
  JobOptions options = Rounds(8);
  options.nodes = 2;
  SimJob job(72, options);
  job.set_worker_trouble(1, TooLong({6}));
  job.Start();
  REQUIRE(job.RunToEnd());
  CheckSucceeded(job);
  CHECK(ReceiptOf(job, 0, 5).contributions.size() == 2);
  CHECK(ReceiptOf(job, 0, 6).contributions.size() == 1);
  CHECK(ReceiptOf(job, 0, 7).contributions.size() == 2);
  CHECK(job.HasEvent("times its own of the rounds before"));
}

TEST_CASE("a node whose loss jumps is left out; where all jump none is") {
  SimJob job(73, Rounds(8));
  const auto jump_in = [](uint64_t at) {
    return WorkerTrouble{.loss_plus = [at](RoundId round) { return round.value == at ? 5.0 : 0.0; }};
  };
  SECTION("one") {
    job.set_worker_trouble(3, jump_in(6));
    job.Start();
    REQUIRE(job.RunToEnd());
    CHECK_FALSE(ReceiptOf(job, 0, 6).Contributed(job.id(3)));
    CHECK(ReceiptOf(job, 0, 7).contributions.size() == 4);
    CHECK(job.HasEvent("round 7 is without the delta of node " + job.id(3).Short() + ": its loss, 5."));
  }
  SECTION("all") {
    for (int node = 0; node < job.size(); ++node) job.set_worker_trouble(node, jump_in(6));
    job.Start();
    REQUIRE(job.RunToEnd());
    CHECK(ReceiptOf(job, 0, 6).contributions.size() == 4);
    CHECK_FALSE(job.HasEvent("is without the delta"));
  }
  CheckSucceeded(job);
}

TEST_CASE("a node that is at fault in three rounds is taken out of the job with the reason, be it the lead") {
  const int bad = GENERATE(2, 0);
  SimJob job(74, Rounds(8));
  job.set_worker_trouble(bad, TooLong({1, 3, 4}));
  job.Start();
  REQUIRE(job.RunToEnd());
  CheckSucceeded(job);
  const int other = bad == 0 ? 1 : 0;
  CHECK(ReceiptOf(job, other, 2).contributions.size() == 4);  // twice is not often enough
  CHECK(job.epoch().epoch == Epoch{2});
  CHECK_FALSE(job.epoch().Has(job.id(bad)));
  CHECK(ReceiptOf(job, other, 7).contributions.size() == 3);
  REQUIRE(job.excluded().count(job.id(bad)) == 1);
  CHECK(job.excluded().at(job.id(bad)).find("it was at fault in 3 rounds of the last 20; last: the norm of its delta, ") == 0);
  REQUIRE(job.ended(bad));
  CHECK(absl::IsAborted(*job.ended(bad)));
}

TEST_CASE("of two nodes neither can have the other taken out: rounds go on without its deltas") {
  JobOptions options = Rounds(8);
  options.nodes = 2;
  SimJob job(75, options);
  job.set_worker_fault(1, [](std::string_view call, RoundId) {
    return call == "run" ? absl::DataLossError("the loss is not finite") : absl::OkStatus();
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  CheckSucceeded(job);
  CHECK(job.epoch().epoch == Epoch{1});
  CHECK(job.excluded().empty());
  CHECK(ReceiptOf(job, 0, 7).contributions.size() == 1);
}

TEST_CASE("a node whose results differ again and again is taken out for good") {
  JobOptions options = Rounds(8);
  options.nodes = 5;
  options.returns = true;
  SimJob job(76, options);
  job.set_may_roll_back();  // its own disk has results of its own
  config::OuterSpec wrong = options.outer;
  wrong.lr *= 2;
  job.set_outer(4, wrong);
  job.Start();
  REQUIRE(job.RunToEnd());
  REQUIRE(job.finished());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  REQUIRE(job.excluded().count(job.id(4)) == 1);
  CHECK(job.excluded().at(job.id(4)).find("it was at fault in 3 rounds of the last 20; last: its result differs in theta") == 0);
  CHECK_FALSE(job.epoch().Has(job.id(4)));
}

TEST_CASE("nobody is at fault in a job where all is well, whatever its codec, fragments and links") {
  JobOptions options = Rounds(30);
  SECTION("top-k, whose residuals grow") { options.codecs = {{.kind = config::CodecKind::kTopK2, .k = 1}}; }
  SECTION("a step a round") { options.inner_steps = 1; }
  SECTION("fragments, and a delay") {
    options.num_params = 9001;
    options.fragments = 3;
    options.delay_steps = 2;
    options.mixing = 0.5;
  }
  SECTION("nodes that come and go") { options.returns = true; }
  SimJob job(77, options);
  if (options.returns) {
    for (const int at : {5, 15}) {
      job.executor().PostAfter(absl::Seconds(at), [&job] { job.Crash(3); });
      job.executor().PostAfter(absl::Seconds(at + 4), [&job] { job.Restart(3); });
    }
  }
  job.Start();
  REQUIRE(job.RunToEnd());
  CheckSucceeded(job);
  CHECK_FALSE(job.HasEvent("the norm of its delta"));
  CHECK_FALSE(job.HasEvent("its loss"));
  CHECK_FALSE(job.HasEvent("mean loss"));
}

}  // namespace
}  // namespace gdf::sim
