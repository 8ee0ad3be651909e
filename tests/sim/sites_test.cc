// Jobs whose nodes exchange by sites, as their lead finds them.
#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "tests/sim/exchange_faults.h"

namespace gdf::sim {
namespace {

std::vector<std::string> Told(const SimJob& job) {
  std::vector<std::string> texts;
  for (const wire::JobEvent& event : job.events()) {
    if (absl::StrContains(event.text, "exchange")) texts.push_back(event.text);
  }
  return texts;
}

TEST_CASE("nodes that measure each other near exchange by sites from the second round on") {
  JobOptions options;
  options.nodes = 5;
  options.rounds = 4;
  options.codecs = {{.kind = config::CodecKind::kFp32}};
  options.near = {{0, 3}, {1, 2}};
  SimJob job(11, options);
  job.Start();
  REQUIRE(job.RunToEnd());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");
  CHECK(Told(job) == std::vector<std::string>{"from round 2 on nodes exchange by sites: node0, node3; node1, node2; node4"});
}

TEST_CASE("nodes that are all near each other, or none of them, exchange with all others") {
  JobOptions options;
  options.nodes = 3;
  options.codecs = {{.kind = config::CodecKind::kFp32}};
  options.near = {{0, 1}, {0, 2}, {1, 2}};
  SimJob job(12, options);
  job.Start();
  REQUIRE(job.RunToEnd());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(Told(job).empty());
}

TEST_CASE("a node at a site dies before each message of an exchange: the others finish the job with one digest a round") {
  for (uint64_t k = 1; k <= 60; ++k) {
    INFO("before message " << k);
    JobOptions options;
    options.codecs = {{.kind = config::CodecKind::kFp32}};
    options.sites = {{"node0", "node1"}, {"node2", "node3"}};
    SimJob job(20 + k, options);
    job.Start();
    const int victim = 1 + static_cast<int>(k % 3);
    OnExchangeMessage(job, [&](uint64_t number) {
      if (number == k) job.CrashFromWithin(victim);
    });
    REQUIRE(job.RunToEnd());
    CHECK(job.verdict() == wire::Verdict::kSucceeded);
    CHECK(job.Violations() == "");
  }
}

}  // namespace
}  // namespace gdf::sim
