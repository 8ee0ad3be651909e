// Faults before a message of a simulated job's exchanges.
#ifndef GDF_TESTS_SIM_EXCHANGE_FAULTS_H_
#define GDF_TESTS_SIM_EXCHANGE_FAULTS_H_

#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "tests/sim/sim_job.h"

namespace gdf::sim {

inline constexpr int kLost = 2;  // of four members, not the lead

inline bool IsOfExchange(const SimMessage& message) { return message.method == "gdf.exchange/j7"; }

// Calls `hook` before each message of the job's exchanges, with its number, from 1.
inline void OnExchangeMessage(SimJob& job, std::function<void(uint64_t number)> hook) {
  job.network().set_on_message([hook = std::move(hook), number = uint64_t{0}](const SimMessage& message) mutable {
    if (IsOfExchange(message)) hook(++number);
  });
}

struct Repair {
  wire::Receipt receipt;
  absl::Duration took;  // from the loss to the round's commit
};

// Runs a job of four nodes and one round, of which `lose` takes member kLost before exchange message `k`: the others
// commit the round in the same epoch.
inline Repair LoseBefore(SimJob& job, uint64_t k, const std::function<void()>& lose) {
  absl::Duration lost_at;
  std::optional<absl::Duration> reported_at;
  OnExchangeMessage(job, [&](uint64_t number) {
    if (number != k) return;
    lost_at = job.executor().Monotonic();
    lose();
  });
  job.set_on_report([&](const wire::ReportJob& report) {
    if (report.round == RoundId{0} && !reported_at) reported_at = job.executor().Monotonic();
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  job.network().set_on_message({});
  job.set_on_report({});
  INFO(job.reason());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");
  REQUIRE(reported_at);
  const wire::Receipt receipt = job.Committed(0).at(RoundId{1}).commit->receipt;
  CHECK(receipt.tag.epoch == Epoch{1});  // not done again by another
  for (const int node : {0, 1, 3}) CHECK(receipt.Contributed(job.id(node)));
  return {receipt, *reported_at - lost_at};
}

}  // namespace gdf::sim

#endif  // GDF_TESTS_SIM_EXCHANGE_FAULTS_H_
