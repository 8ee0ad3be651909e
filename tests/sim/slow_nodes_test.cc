// Nodes that are slower than others, and what a job has them do.
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "tests/sim/sim_job.h"

namespace gdf::sim {
namespace {

constexpr uint64_t kTokens = 32;  // of a step
constexpr int kSlow = 3;

JobOptions Slow() {
  JobOptions options;
  options.rounds = 6;
  options.inner_steps = 24;
  options.num_params = 300;
  return options;
}

wire::Receipt ReceiptOf(SimJob& job, uint64_t round) {
  return job.Committed(0).at(RoundId{round + 1}).commit->receipt;
}

uint64_t TokensOf(const wire::Receipt& receipt, const NodeId& node) {
  for (const wire::Contribution& c : receipt.contributions) {
    if (c.node == node) return c.tokens;
  }
  return 0;
}

// With one node three times slower; the time that the job took.
absl::Duration Run(SimJob& job) {
  job.set_step_time(kSlow, 3 * SimWorkerOptions{}.step_time);
  job.Start();
  REQUIRE(job.RunToEnd());
  INFO(job.reason());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");  // the weighted means of what they packed among it
  return job.executor().Monotonic();
}

TEST_CASE("a node three times slower takes a third of the steps, and nobody waits for it; its weight is what it trained on") {
  JobOptions options = Slow();
  SECTION("whole rounds") {}
  SECTION("with a delay") {
    options.num_params = 9001;
    options.fragments = 2;
    options.delay_steps = 6;
  }
  SimJob waits(81, options);
  const absl::Duration waited = Run(waits);
  options.steps_by_speed = true;
  SimJob job(81, options);
  const absl::Duration took = Run(job);
  const uint64_t whole = 24 * kTokens;
  const bool delays = options.delay_steps > 0;
  for (uint64_t round = 0; round < 6; ++round) {
    const wire::Receipt receipt = ReceiptOf(job, round);
    INFO("round " << round);
    REQUIRE(receipt.contributions.size() == 4);
    // Every member's data goes as far as that of who took all steps.
    CHECK(receipt.result.cursor.position == static_cast<int64_t>(round + 1) * 24 * 4);
    if (delays && (round == 0 || round == 5)) continue;  // what the delay trained on is reported a round later
    for (int node = 0; node < 4; ++node) {
      const uint64_t tokens = TokensOf(receipt, job.id(node));
      if (node != kSlow) CHECK((delays || tokens == whole));
      if (node == kSlow && round > 1) CHECK((tokens >= 6 * kTokens && tokens <= 10 * kTokens));
      if (node == kSlow && round == 0) CHECK(tokens == whole);  // nothing is known of it yet
    }
  }
  // 6 rounds at the slow node's pace, and 1 at its and 5 at the others'.
  CHECK(took < 0.6 * waited);
}

TEST_CASE("as soon as a slow node is as fast as the others it takes all steps again") {
  JobOptions options = Slow();
  options.rounds = 12;
  options.steps_by_speed = true;
  SimJob job(82, options);
  job.set_on_report([&job](const wire::ReportJob& report) {
    if (report.round != RoundId{2}) return;
    job.set_step_time(kSlow, SimWorkerOptions{}.step_time);
    job.executor().Post([&job] { job.Crash(kSlow), job.Restart(kSlow); });
  });
  Run(job);
  CHECK(TokensOf(ReceiptOf(job, 2), job.id(kSlow)) < 12 * kTokens);
  CHECK(TokensOf(ReceiptOf(job, 11), job.id(kSlow)) > 20 * kTokens);
}

// How many events say so.
int64_t Told(SimJob& job, std::string_view text) {
  return std::count_if(job.events().begin(), job.events().end(), [&](const wire::JobEvent& event) {
    return absl::StrContains(event.text, std::string(text));
  });
}

TEST_CASE("with rounds.late nobody waits for a slow node; it stays a member and its deltas come later") {
  JobOptions options = Slow();
  options.rounds = 12;
  SECTION("whole rounds") {}
  SECTION("with a delay") {
    options.num_params = 9001;
    options.fragments = 2;
    options.delay_steps = 6;
  }
  SECTION("as factors") {
    options.codecs = {{config::CodecKind::kFp32}};
    options.rank = 2;
    options.outer = {.optimizer = config::OuterOptimizer::kSgd, .lr = 0.5, .momentum = 0};
  }
  SimJob waits(84, options);
  const absl::Duration waited = Run(waits);
  options.late = {.after = 1.5, .weight = 0.5};
  SimJob job(84, options);
  const absl::Duration took = Run(job);
  CHECK(took < 0.55 * waited);  // a third, and what it waits for at first
  CHECK(job.epoch().epoch == Epoch{1});
  CHECK(Told(job, "it trains for longer than rounds.late allows") <= 2);  // not for each round
  int late = 0;
  for (uint64_t round = 0; round < 12; ++round) late += TokensOf(ReceiptOf(job, round), job.id(kSlow)) == 0;
  CHECK(late >= 2);
  CHECK(late <= 6);  // then it takes as many steps as it has time for
}

TEST_CASE("a late delta counts the less the more rounds have passed; with weight 0 it is dropped") {
  const double weight = GENERATE(1.0, 0.5, 0.0);
  JobOptions options = Slow();
  options.rounds = 8;
  options.codecs = {{.kind = config::CodecKind::kBf16}};
  options.constant_gradient = 1.0f / 64;  // a round's delta is 24 of it, exactly
  options.late = {.after = 1.5, .weight = weight};
  SimJob job(85, options);
  Run(job);
  const std::unique_ptr<compress::Codec> codec = *compress::Codec::Create(options.codecs[0]);
  std::optional<uint64_t> before;
  double carried = 0;
  int late = 0;
  for (const auto& [packed, contents] : job.journal()) {
    if (packed.first != job.id(kSlow)) continue;
    std::vector<float> delta(options.num_params);
    REQUIRE(codec->Decode(contents.back().span(), absl::MakeSpan(delta)).ok());
    const uint64_t round = packed.second.value;
    const double waits = before ? carried * std::pow(weight, static_cast<double>(round - *before)) : 0;
    INFO("round " << round << " after " << before.value_or(99));
    const uint64_t tokens = TokensOf(ReceiptOf(job, round), job.id(kSlow));
    const double steps = tokens > 0 ? static_cast<double>(tokens) / kTokens : 24;
    CHECK(delta[0] == Approx(steps / 64 + waits));
    late += tokens == 0;
    carried = tokens > 0 ? 0 : delta[0];
    before = round;
  }
  CHECK((before > 4 && late > 0));
}

TEST_CASE("a round whose deadline has passed with the minimum reached does not wait for a node that hangs") {
  const int hung = GENERATE(3, 0);
  JobOptions options = Slow();
  options.round_deadline = absl::Seconds(30);
  SimJob job(83, options);
  job.set_step_time(hung, absl::Hours(10));  // its process answers, its worker does not come to an end
  job.Start();
  REQUIRE(job.RunToEnd());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");
  CHECK_FALSE(job.epoch().Has(job.id(hung)));
  // 24 steps are 3 to 4 s: one round that waits for its deadline, and all of them once.
  CHECK(job.executor().Monotonic() < absl::Seconds(30 + 6 * 5 + 15));
}

}  // namespace
}  // namespace gdf::sim
