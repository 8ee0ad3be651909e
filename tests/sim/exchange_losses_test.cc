// A member is lost in the middle of an exchange: the survivors commit the same round without it, in the same epoch.
#include <catch2/catch.hpp>

#include "tests/sim/exchange_faults.h"

namespace gdf::sim {
namespace {

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
  OnExchangeMessage(job, [&](uint64_t number) { count = number; });
  job.Start();
  REQUIRE(job.RunToEnd());
  return count;
}

// Loses member kLost before message `k` of the first exchange and has the time from there to the round's commit.
absl::Duration TimeToCommit(uint64_t seed, uint64_t k, const std::function<void(SimJob&)>& lose) {
  SimJob job(seed, OneRound());
  const Repair repair = LoseBefore(job, k, [&] { lose(job); });
  // Without it, unless all that it had to give had arrived.
  if (repair.receipt.tag.attempt > 1) CHECK_FALSE(repair.receipt.Contributed(job.id(kLost)));
  return repair.took;
}

TEST_CASE(
    "a member dies before each message of an exchange: the round is committed without it at once") {
  const uint64_t messages = MessagesOfExchange(41);
  REQUIRE(messages >= 36);  // 12 streams with a hello, a slice and a mean each
  for (uint64_t k = 1; k <= messages; ++k) {
    INFO("before message " << k << " of " << messages);
    for (const bool seen :
         {true, false}) {  // by the coordinator; else by the refused connection alone
      const absl::Duration took = TimeToCommit(41, k, [&](SimJob& job) {
        if (!seen) job.set_sees_offline([](int) { return false; });
        job.Crash(kLost);
      });
      CHECK(took < absl::Seconds(3));
    }
  }
}

TEST_CASE(
    "a member that is cut from another one dies: what the lead knows is told, and nobody waits for "
    "longer") {
  const uint64_t messages = MessagesOfExchange(43);
  for (uint64_t k = 1; k <= messages / 2; ++k) {  // those that can still pass
    INFO("before message " << k);
    const absl::Duration took = TimeToCommit(43, k, [&](SimJob& job) {
      job.network().Cut(job.id(1), job.id(kLost));
      job.Crash(kLost);
    });
    CHECK(took < absl::Seconds(3));
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

TEST_CASE("a member falls silent, and the coordinator has noticed: it is given up with its links, not dialled again") {
  const uint64_t messages = MessagesOfExchange(46);
  for (uint64_t k = 1; k <= messages; k += 5) {
    INFO("before message " << k << " of " << messages);
    const absl::Duration took = TimeToCommit(46, k, [](SimJob& job) {
      job.set_sees_offline([](int node) { return node == kLost; });
      job.Isolate(kLost);
    });
    CHECK(took < NetworkOptions{}.keepalive + absl::Seconds(3));
  }
}

// Some minutes: a place is kept for less.
JobOptions ManyRounds() {
  JobOptions options;
  options.rounds = 200;
  options.inner_steps = 2;
  return options;
}

TEST_CASE(
    "a member that dies in an exchange and is back soon keeps its place, and rounds are committed "
    "meanwhile") {
  SimJob job(44, ManyRounds());
  OnExchangeMessage(job, [&](uint64_t number) {
    if (number != 20) return;
    job.Crash(kLost);
    job.executor().PostAfter(absl::Seconds(5), [&job] { job.Restart(kLost); });
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");
  CHECK(job.epoch().epoch == Epoch{1});
  uint64_t without = 0;
  for (const wire::ReportJob& report : job.reports())
    without += report.metrics.contributors == 3 ? 1 : 0;
  CHECK(without >= 2);
  CHECK(job.reports().back().metrics.contributors == 4);
}

TEST_CASE(
    "a member that dies in an exchange and stays away is left out of the next epoch once its place "
    "is given up") {
  SimJob job(45, ManyRounds());
  uint64_t count = 0;
  absl::Duration lost_at;
  std::optional<absl::Duration> left_out_at;
  job.network().set_on_message([&](const SimMessage& message) {
    if (IsOfExchange(message) && ++count == 20) {
      lost_at = job.executor().Monotonic();
      job.Crash(kLost);
    }
    if (!left_out_at && job.epoch().epoch == Epoch{2}) left_out_at = job.executor().Monotonic();
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");
  REQUIRE(left_out_at);
  const absl::Duration kept = *left_out_at - lost_at;
  CHECK(kept >= rounds::RoundTimings{}.reconnect);
  CHECK(kept < rounds::RoundTimings{}.reconnect + absl::Seconds(15));
  CHECK_FALSE(job.epoch().Has(job.id(kLost)));
}

}  // namespace
}  // namespace gdf::sim
