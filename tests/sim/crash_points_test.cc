// Tables: a node crashes just before message k is delivered, for every k of a whole job.
#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "tests/sim/sim_job.h"

namespace gdf::sim {
namespace {

constexpr int kLead = 0;
constexpr int kMember = 2;

JobOptions Small() {
  JobOptions options;
  options.rounds = 2;
  options.inner_steps = 2;
  options.num_params = 300;
  return options;
}

uint64_t MessagesOfCleanRun(uint64_t seed) {
  SimJob job(seed, Small());
  job.Start();
  REQUIRE(job.RunToEnd());
  return job.network().messages();
}

// Runs a job in which `fault` happens before message `k`; the text says what went wrong, or nothing.
template <typename Fault>
std::string RunWithFault(uint64_t seed, uint64_t k, Fault fault) {
  SimJob job(seed, Small());
  job.network().set_on_message([&](const SimMessage& message) {
    if (message.number == k) fault(job);
  });
  job.Start();
  if (!job.RunToEnd()) return "the job did not end";
  if (job.verdict() != wire::Verdict::kSucceeded) return absl::StrCat("the job failed: ", job.reason());
  return job.Violations();
}

template <typename Fault>
void Table(uint64_t seed, Fault fault) {
  const uint64_t messages = MessagesOfCleanRun(seed);
  REQUIRE(messages > 100);
  for (uint64_t k = 1; k <= messages; ++k) {
    INFO("seed " << seed << ", before message " << k << " of " << messages);
    CHECK(RunWithFault(seed, k, fault) == "");
  }
}

TEST_CASE("a member crashes at each message: the others finish the job") {
  Table(11, [](SimJob& job) { job.Crash(kMember); });
}

TEST_CASE("the lead crashes at each message: another finishes the job") {
  Table(12, [](SimJob& job) { job.Crash(kLead); });
}

TEST_CASE("a member restarts at each message: it comes back and the job goes on") {
  Table(13, [](SimJob& job) {
    job.Crash(kMember);
    job.executor().PostAfter(absl::Seconds(2), [&job] { job.Restart(kMember); });
  });
}

TEST_CASE("the lead restarts at each message: it goes on from its disk") {
  Table(14, [](SimJob& job) {
    job.Crash(kLead);
    job.executor().PostAfter(absl::Seconds(2), [&job] { job.Restart(kLead); });
  });
}

TEST_CASE("all nodes restart at each message: the job goes on by itself") {
  Table(15, [](SimJob& job) {
    for (int node = 0; node < job.size(); ++node) {
      job.Crash(node);
      job.executor().PostAfter(absl::Seconds(1 + node), [&job, node] { job.Restart(node); });
    }
  });
}

}  // namespace
}  // namespace gdf::sim
