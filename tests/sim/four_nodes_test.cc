// The first simulated job (docs/adr/0001-protocol-coroutines.md): four nodes, one of which crashes during a round.
#include <catch2/catch.hpp>

#include "tests/sim/sim_job.h"

namespace gdf::sim {
namespace {

TEST_CASE("four nodes train to the end and agree on every round") {
  SimJob job(1);
  job.Start();
  REQUIRE(job.RunToEnd());
  INFO(job.reason());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");
  for (int node = 0; node < job.size(); ++node) {
    CHECK(job.ended(node) == absl::OkStatus());
    const std::map<RoundId, CommittedRound> rounds = job.Committed(node);
    REQUIRE(rounds.size() == 4);  // θ_0 and three rounds
    for (uint64_t round = 1; round <= 3; ++round) {
      CHECK(rounds.at(RoundId{round}).commit->receipt.contributions.size() == 4);
    }
  }
  CHECK(job.reports().size() == 3);
  CHECK(job.epoch().epoch == Epoch{1});
}

TEST_CASE("a job of several codecs begins with the last and goes over to the first that is as fast") {
  JobOptions options;
  options.rounds = 5;
  options.codecs = {{config::CodecKind::kFp32}, {config::CodecKind::kInt8, 64}};
  SimJob job(3, options);
  job.Start();
  REQUIRE(job.RunToEnd());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");  // each round is worked out again by the codec that its receipt names
  const std::map<RoundId, CommittedRound> rounds = job.Committed(1);
  REQUIRE(rounds.size() == 6);
  uint32_t codec = 1;
  for (const auto& [round, committed] : rounds) {
    if (round.value == 0) continue;
    const wire::Receipt& receipt = committed.commit->receipt;
    CHECK(receipt.codec == codec);
    codec = receipt.next_codec;
  }
  CHECK(codec == 0);
}

TEST_CASE("one of four nodes crashes during a round: the other three commit without it") {
  SimJob job(2);
  const NodeId crashed = job.id(3);
  job.network().set_on_message([&](const SimMessage& message) {
    if (job.Up(3) && message.from == crashed && message.method.find("gdf.exchange/") == 0) job.Crash(3);
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  INFO(job.reason());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");
  CHECK(job.epoch().epoch == Epoch{1});  // the job is over before its place is given up
  const std::map<RoundId, CommittedRound> rounds = job.Committed(0);
  REQUIRE(rounds.size() == 4);
  for (const auto& [round, committed] : rounds) {
    if (round.value == 0) continue;
    const wire::Receipt& receipt = committed.commit->receipt;
    CHECK(receipt.contributions.size() == 3);
    CHECK_FALSE(receipt.Contributed(crashed));
    for (int node = 1; node < 3; ++node) {
      CHECK(job.Committed(node).at(round).state->id.theta == committed.state->id.theta);
    }
  }
}

}  // namespace
}  // namespace gdf::sim
