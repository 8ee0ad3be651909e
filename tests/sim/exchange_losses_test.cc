// A member is lost in the middle of an exchange: the survivors commit the same round without it, in the same epoch.
#include <catch2/catch.hpp>

#include "tests/sim/sim_job.h"

namespace gdf::sim {
namespace {

constexpr int kLost = 2;

JobOptions OneRound() {
  JobOptions options;
  options.rounds = 1;
  options.inner_steps = 2;
  return options;
}

// Messages of the exchange of a clean run.
uint64_t MessagesOfExchange(uint64_t seed) {
  uint64_t count = 0;
  SimJob job(seed, OneRound());
  job.network().set_on_message([&](const SimMessage& message) { count += message.method == "gdf.exchange/j7" ? 1 : 0; });
  job.Start();
  REQUIRE(job.RunToEnd());
  return count;
}

// Loses member kLost before message `k` of the first exchange and has the time from there to the round's commit.
template <typename Fault>
absl::Duration TimeToCommit(uint64_t seed, uint64_t k, Fault fault) {
  SimJob job(seed, OneRound());
  uint64_t count = 0;
  absl::Duration lost_at;
  std::optional<absl::Duration> reported_at;
  job.network().set_on_message([&](const SimMessage& message) {
    if (message.method != "gdf.exchange/j7" || ++count != k) return;
    lost_at = job.executor().Monotonic();
    fault(job);
  });
  job.set_on_report([&](const wire::ReportJob& report) {
    if (report.round == RoundId{0} && !reported_at) reported_at = job.executor().Monotonic();
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  INFO(job.reason());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");
  REQUIRE(reported_at);
  const wire::Receipt receipt = job.Committed(0).at(RoundId{1}).commit->receipt;
  CHECK(receipt.tag.epoch == Epoch{1});  // not done again by another
  for (const int node : {0, 1, 3}) CHECK(receipt.Contributed(job.id(node)));
  // Without it, unless all that it had to give had arrived.
  if (receipt.tag.attempt > 1) CHECK_FALSE(receipt.Contributed(job.id(kLost)));
  return *reported_at - lost_at;
}

TEST_CASE("a member dies before each message of an exchange: the round is committed without it as soon as it may be given up") {
  const uint64_t messages = MessagesOfExchange(41);
  REQUIRE(messages >= 36);  // 12 streams with a hello, a slice and a mean each
  for (uint64_t k = 1; k <= messages; ++k) {
    INFO("before message " << k << " of " << messages);
    const absl::Duration took = TimeToCommit(41, k, [](SimJob& job) { job.Crash(kLost); });
    CHECK(took < rounds::RoundTimings{}.reconnect + absl::Seconds(3));
  }
}

TEST_CASE("a member falls silent before each message of an exchange: the round is committed without it once its links are given up") {
  const uint64_t messages = MessagesOfExchange(42);
  for (uint64_t k = 1; k <= messages; ++k) {
    INFO("before message " << k << " of " << messages);
    const absl::Duration took = TimeToCommit(42, k, [](SimJob& job) { job.Isolate(kLost); });
    const NetworkOptions network;
    CHECK(took < network.keepalive + rounds::RoundTimings{}.reconnect + 2 * network.dial_timeout + absl::Seconds(3));
  }
}

}  // namespace
}  // namespace gdf::sim
