// A node that comes back fetches what the others have made from several of them.
#include <catch2/catch.hpp>

#include "tests/sim/sim_job.h"

namespace gdf::sim {
namespace {

JobOptions Large() {
  JobOptions options;
  options.nodes = 5;
  options.rounds = 8;
  options.num_params = 3'000'000;  // 24 MiB with the momentum
  options.codecs = {{config::CodecKind::kFp32}};
  options.returns = true;
  return options;
}

// Node 4 is away from the first report to the second. Counts what each node gives it of the state.
void TakeAway(SimJob& job) {
  job.set_on_report([&job, reported = 0](const wire::ReportJob&) mutable {
    ++reported;
    if (reported == 1) job.Crash(4);
    if (reported == 2) job.Restart(4);
  });
}

bool GivesState(const SimMessage& message, const NodeId& to) {
  return message.method.find("gdf.state/") == 0 && message.to == to;
}

TEST_CASE("a node that comes back takes the state from several others") {
  SimJob job(11, Large());
  TakeAway(job);
  std::map<NodeId, int> given;
  job.network().set_on_message([&](const SimMessage& message) {
    if (GivesState(message, job.id(4))) ++given[message.from];
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");
  CHECK(given.size() == 4);
  for (const auto& [node, messages] : given) CHECK(messages >= 3);
  CHECK(job.Committed(4).rbegin()->first == RoundId{8});
}

TEST_CASE("a donor that dies in mid-transfer is replaced by the others") {
  SimJob job(12, Large());
  TakeAway(job);
  int given = 0;
  job.network().set_on_message([&](const SimMessage& message) {
    if (!GivesState(message, job.id(4)) || message.from != job.id(2)) return;
    if (++given == 3) job.Crash(2);
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  REQUIRE(given >= 3);  // what was under way may come yet
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");
  CHECK(job.Committed(4).rbegin()->first == RoundId{8});
}

}  // namespace
}  // namespace gdf::sim
