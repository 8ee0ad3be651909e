// One kind of trouble a case: what the job does about it, and what people are told.
#include <catch2/catch.hpp>

#include "tests/sim/sim_job.h"

namespace gdf::sim {
namespace {

void CheckSucceeded(SimJob& job) {
  REQUIRE(job.finished());
  INFO(job.reason());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");
}

// The receipt of the round that takes θ_round on, from the disk of node 0.
wire::Receipt ReceiptOf(SimJob& job, uint64_t round) {
  return job.Committed(0).at(RoundId{round + 1}).commit->receipt;
}

TEST_CASE("a connection is reset just before each message: the job ends with all its nodes") {
  JobOptions options;
  options.rounds = 1;
  options.inner_steps = 2;
  options.num_params = 300;
  for (uint64_t k = 1; k < 80; ++k) {
    INFO("before message " << k);
    SimJob job(21, options);
    job.network().set_on_message([&](const SimMessage& message) {
      if (message.number == k) job.network().Reset(message.from, message.to);
    });
    job.Start();
    REQUIRE(job.RunToEnd());
    CheckSucceeded(job);
    CHECK(job.epoch().epoch == Epoch{1});
  }
}

TEST_CASE("a process or its machine ends just before each step of its disk, and starts again") {
  const bool power = GENERATE(false, true);
  CAPTURE(power);
  JobOptions options;
  options.rounds = 2;
  options.inner_steps = 2;
  options.num_params = 300;
  for (const int node : {0, 2}) {
    bool crashed = true;
    for (uint64_t k = 1; crashed; ++k) {
      INFO("node " << node << ", before step " << k);
      crashed = false;
      SimJob job(22, options);
      job.set_disk_fault(node, [&, steps = uint64_t{0}](std::string_view, const std::string&) mutable {
        if (++steps < k || crashed) return absl::OkStatus();
        crashed = true;
        job.CrashFromWithin(node, power);
        job.executor().PostAfter(absl::Seconds(2), [&job, node] { job.Restart(node); });
        return absl::UnavailableError("this process has crashed");
      });
      job.Start();
      REQUIRE(job.RunToEnd());
      CheckSucceeded(job);
      CHECK(job.epoch().epoch == Epoch{1});
    }
  }
}

TEST_CASE("of two nodes one is lost: the other goes on alone, soon") {
  for (const int lost : {0, 1}) {
    INFO("lost: node " << lost);
    JobOptions options;
    options.nodes = 2;
    options.min_nodes = 1;
    SimJob job(23, options);
    job.network().set_on_message([&](const SimMessage& message) {
      if (message.number == 20) job.Crash(lost);
    });
    job.Start();
    REQUIRE(job.RunToEnd(absl::Minutes(2)));
    CheckSucceeded(job);
    CHECK(job.epoch().members == std::vector<NodeId>{job.id(1 - lost)});
  }
}

TEST_CASE("fewer nodes than the job's minimum: it waits, and goes on when one is back") {
  JobOptions options;
  options.nodes = 2;
  options.min_nodes = 2;
  SimJob job(24, options);
  job.network().set_on_message([&](const SimMessage& message) {
    if (message.number == 20) {
      job.Crash(1);
      job.executor().PostAfter(absl::Minutes(5), [&job] { job.Restart(1); });
    }
  });
  job.Start();
  CHECK_FALSE(job.RunToEnd(absl::Minutes(4)));
  REQUIRE(job.RunToEnd());
  CheckSucceeded(job);
  CHECK(job.epoch().epoch == Epoch{1});
  CHECK(job.HasEvent("waiting for 2 of the 2 members of epoch 1 (1 answers; node "));
}

TEST_CASE("fewer nodes than the minimum: the job says who is missing, and goes on whenever that node is back") {
  JobOptions options;
  options.nodes = 2;
  options.min_nodes = 2;
  SimJob job(25, options);
  job.network().set_on_message([&](const SimMessage& message) {
    if (message.number == 20) job.Crash(1);
  });
  job.Start();
  CHECK_FALSE(job.RunToEnd(absl::Hours(24)));
  CHECK(job.HasEvent("waiting for 2 of the 2 members of epoch 1 (1 answers; node " + job.id(1).Short()));
  CHECK(job.events().size() < 10);  // it is not said again and again
  job.Restart(1);
  REQUIRE(job.RunToEnd());
  CheckSucceeded(job);
  CHECK(job.epoch().epoch == Epoch{1});
}

TEST_CASE("a lead is cut off from everybody: the others choose another; it cannot commit alone") {
  SimJob job(26);
  job.network().set_on_message([&](const SimMessage& message) {
    if (message.number == 40) job.Isolate(0);
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  CheckSucceeded(job);
  CHECK(job.epoch().lead != job.id(0));
  CHECK_FALSE(job.epoch().Has(job.id(0)));
  CHECK(absl::IsAborted(*job.ended(0)));
}

TEST_CASE("a lead that is connected and does nothing: the others choose another") {
  SimJob job(40);
  job.network().set_on_message([&](const SimMessage& message) {
    if (message.number == 40) job.executor().Post([&job] { job.Freeze(0); });
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  CheckSucceeded(job);
  CHECK_FALSE(job.epoch().Has(job.id(0)));
}

TEST_CASE("nothing of one member arrives at another, for good: the job goes on without one of the two") {
  for (const int from : {0, 1, 2}) {
    for (uint64_t k = 1; k < 120; k += 7) {
      INFO("from node " << from << ", from message " << k << " on");
      SimJob job(41);
      job.network().set_on_message([&](const SimMessage& message) {
        if (message.number == k) job.network().CutOneWay(job.id(from), job.id(from == 2 ? 0 : from + 1));
      });
      job.Start();
      REQUIRE(job.RunToEnd());
      CheckSucceeded(job);
    }
  }
}

TEST_CASE("wall clocks that jump change nothing of a job") {
  const auto run = [](uint64_t seed, bool jump) {
    SimJob job(seed);
    SeededRng rng(seed);
    job.network().set_on_message([&](const SimMessage& message) {
      if (jump && message.number % 5 == 0) job.set_wall_clock_ahead(message.number % 4, (rng.Unit() - 0.5) * absl::Hours(1'000'000));
    });
    job.Start();
    REQUIRE(job.RunToEnd());
    CheckSucceeded(job);
    return std::tuple(job.network().messages(), job.executor().Monotonic(), job.verdict_given()->theta);
  };
  for (uint64_t seed = 50; seed < 55; ++seed) CHECK(run(seed, true) == run(seed, false));
}

TEST_CASE("a node that missed an epoch says that its rounds are rolled back when nobody has them any more") {
  JobOptions options;
  options.nodes = 2;
  options.min_nodes = 1;
  options.rounds = 8;
  options.returns = true;
  SimJob job(42, options);
  job.set_on_report([&](const wire::ReportJob& report) {
    if (report.epoch == Epoch{1}) job.executor().Post([&job] { job.Crash(0); });
    if (report.epoch == Epoch{2} && report.round.value == 2) job.executor().Post([&job] { job.Restart(0); });
  });
  job.network().set_on_message([&](const SimMessage&) {
    if (job.epoch().epoch == Epoch{3}) job.Crash(1);
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  CheckSucceeded(job);
  CHECK(job.epoch().epoch == Epoch{4});
  CHECK(job.HasEvent("no longer waits for 1 of the 1 members of epoch 2"));
}

TEST_CASE("a loss that no message can carry is a delta that is left out, not a node that is lost") {
  JobOptions options;
  options.constant_gradient = 1e18f;
  SimJob job(43, options);
  job.Start();
  REQUIRE(job.RunToEnd(absl::Minutes(5)));
  CHECK(job.verdict() == wire::Verdict::kFailed);
  CHECK(job.reason().find("is not a usable number") != std::string::npos);
  CHECK(job.epoch().epoch == Epoch{1});
}

TEST_CASE("two halves of four nodes: neither commits while they are apart") {
  SimJob job(27);
  absl::Duration apart_at;
  job.network().set_on_message([&](const SimMessage& message) {
    if (message.number != 40) return;
    apart_at = job.executor().Monotonic();
    for (const int a : {0, 1}) {
      for (const int b : {2, 3}) job.network().Cut(job.id(a), job.id(b));
    }
    job.executor().PostAfter(absl::Seconds(20), [&] {
      for (const int a : {0, 1}) {
        for (const int b : {2, 3}) job.network().Heal(job.id(a), job.id(b));
      }
    });
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  CheckSucceeded(job);
}

TEST_CASE("a delta that is not finite is left out, its node stays") {
  SimJob job(28);
  bool once = false;
  job.set_worker_fault(2, [&](std::string_view call, RoundId round) {
    if (call != "run" || round.value != 1 || std::exchange(once, true)) return absl::OkStatus();
    return absl::DataLossError("step 5: the loss is not finite");
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  CheckSucceeded(job);
  CHECK(job.epoch().epoch == Epoch{1});
  CHECK(ReceiptOf(job, 0).contributions.size() == 4);
  CHECK(ReceiptOf(job, 1).contributions.size() == 3);
  CHECK_FALSE(ReceiptOf(job, 1).Contributed(job.id(2)));
  CHECK(ReceiptOf(job, 2).contributions.size() == 4);
  CHECK(job.HasEvent("round 2 is without the delta of node " + job.id(2).Short() + ": step 5: the loss is not finite"));
}

TEST_CASE("no delta is finite: the job fails and says why") {
  SimJob job(29);
  for (int node = 0; node < job.size(); ++node) {
    job.set_worker_fault(node, [](std::string_view call, RoundId round) {
      return call == "run" && round.value == 1 ? absl::DataLossError("the loss is not finite") : absl::OkStatus();
    });
  }
  job.Start();
  REQUIRE(job.RunToEnd());
  CHECK(job.verdict() == wire::Verdict::kFailed);
  CHECK(job.reason().find("no member has a delta that can be used in round 2") == 0);
  CHECK(job.Violations() == "");
}

TEST_CASE("a validation loss that is not finite ends the job as failed, and says where it was first seen") {
  const uint64_t bad = GENERATE(2, 3);  // rounds done: in between; after the last
  SimJob job(30);
  for (int node = 0; node < job.size(); ++node) {
    job.set_worker_fault(node, [bad](std::string_view call, RoundId round) {
      return call == "evaluate" && round.value >= bad ? absl::DataLossError("the validation loss is nan")
                                                      : absl::OkStatus();
    });
  }
  job.Start();
  REQUIRE(job.RunToEnd());
  CHECK(job.verdict() == wire::Verdict::kFailed);
  const std::string why = absl::StrCat("after round ", bad, ", on node ", job.epoch().lead.Short(), ": the validation loss is nan");
  INFO(job.reason());
  CHECK(job.reason() == why);
  CHECK(job.HasEvent(why));
  CHECK(job.Violations() == "");
}

TEST_CASE("a worker that ended takes its node out of the job, not the job down") {
  for (const int node : {0, 3}) {
    INFO("node " << node);
    SimJob job(30);
    job.set_worker_fault(node, [](std::string_view call, RoundId round) {
      return call == "run" && round.value == 1 ? absl::UnavailableError("killed by SIGKILL") : absl::OkStatus();
    });
    job.Start();
    REQUIRE(job.RunToEnd());
    CheckSucceeded(job);
    CHECK_FALSE(job.epoch().Has(job.id(node)));
    CHECK(job.HasEvent("this node leaves the job: killed by SIGKILL"));
  }
}

TEST_CASE("a node slower than the round's deadline is left out") {
  JobOptions options;
  options.round_deadline = absl::Seconds(20);
  SimJob job(31, options);
  job.set_step_time(1, absl::Seconds(30));
  job.Start();
  REQUIRE(job.RunToEnd());
  CheckSucceeded(job);
  CHECK_FALSE(job.epoch().Has(job.id(1)));
}

TEST_CASE("of two nodes the worker of one hangs: it leaves by itself, the other goes on alone") {
  for (const int hangs : {0, 1}) {
    INFO("hangs: node " << hangs);
    JobOptions options;
    options.nodes = 2;
    options.min_nodes = 1;
    options.round_deadline = absl::Seconds(20);
    SimJob job(36, options);
    job.set_step_time(hangs, absl::Hours(9));
    job.Start();
    REQUIRE(job.RunToEnd(absl::Minutes(10)));
    CheckSucceeded(job);
    CHECK(job.epoch().members == std::vector<NodeId>{job.id(1 - hangs)});
  }
}

TEST_CASE("a full disk of one member: the others commit, and people are told") {
  SimJob job(32);
  bool freed = false;
  job.set_on_report([&](const wire::ReportJob& report) { freed |= report.round.value == 1; });
  job.set_disk_fault(1, [&](std::string_view step, const std::string& path) {
    const bool full = !freed && step == "append" && path.find("state-0000000000000002") != std::string::npos;
    return full ? absl::ResourceExhaustedError("cannot write " + path + ": the disk is full") : absl::OkStatus();
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  CheckSucceeded(job);
  CHECK(job.HasEvent("cannot save the result of round 2 and so not sign it: cannot write"));
  CHECK(job.HasEvent("saves results of rounds again, after "));
}

// It would otherwise have signed for a round that it does not find after a restart.
TEST_CASE("a round that a disk did not take as committed is on it before the next result is signed") {
  JobOptions options;
  options.nodes = 2;  // both sign each round
  SimJob job(39, options);
  bool refused = false;
  job.set_disk_fault(1, [&](std::string_view step, const std::string& path) {
    if (refused || step != "append" || path.find("/committed-0000000000000002") == std::string::npos) return absl::OkStatus();
    refused = true;
    return absl::ResourceExhaustedError("cannot write " + path + ": the disk is full");
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  REQUIRE(refused);
  CheckSucceeded(job);
}

TEST_CASE("no disk takes the last round as committed: the job has its result once one does, and fails when none ever does") {
  const bool freed = GENERATE(true, false);
  SimJob job(44);
  bool full = true;
  for (int node = 0; node < job.size(); ++node) {
    job.set_disk_fault(node, [&](std::string_view step, const std::string& path) {
      const bool last = full && step == "append" && path.find("/committed-0000000000000003") != std::string::npos;
      return last ? absl::ResourceExhaustedError("cannot write " + path + ": the disk is full") : absl::OkStatus();
    });
  }
  job.executor().PostAfter(absl::Minutes(5), [&] { full = !freed; });
  job.Start();
  CHECK_FALSE(job.RunToEnd(absl::Minutes(4)));
  REQUIRE(job.RunToEnd(absl::Minutes(20)));
  CHECK((job.verdict() == wire::Verdict::kSucceeded) == freed);
  if (!freed) CHECK(job.reason().find("saving the result: cannot write") == 0);
  CHECK(job.Violations() == "");
}

TEST_CASE("full disks everywhere: the job fails within bounds and says why") {
  SimJob job(33);
  for (int node = 0; node < job.size(); ++node) {
    job.set_disk_fault(node, [](std::string_view step, const std::string& path) {
      const bool full = step == "append" && path.find("state-0000000000000002") != std::string::npos;
      return full ? absl::ResourceExhaustedError("cannot write " + path + ": the disk is full") : absl::OkStatus();
    });
  }
  job.Start();
  REQUIRE(job.RunToEnd(absl::Hours(1)));
  CHECK(job.verdict() == wire::Verdict::kFailed);
  CHECK(job.reason().find("no round was committed for") == 0);
  CHECK(job.reason().find("the disk is full") != std::string::npos);
  const auto told = std::count_if(job.events().begin(), job.events().end(), [](const wire::JobEvent& event) {
    return event.text.find("cannot save") != std::string::npos;
  });
  CHECK(told == job.size());  // once on each node, however often it is tried
  CHECK(job.Violations() == "");
}

TEST_CASE("rounds between checkpoints: after a crash of all nodes the job goes on from the last one") {
  JobOptions options;
  options.rounds = 6;
  options.checkpoint_every = 4;
  SimJob job(34, options);
  bool down = false;
  job.set_on_report([&](const wire::ReportJob& report) {
    if (report.round.value != 4 || std::exchange(down, true)) return;  // θ_5 is held, θ_4 is on disk
    job.executor().Post([&job] {
      for (int node = 0; node < job.size(); ++node) {
        job.Crash(node);
        job.executor().PostAfter(absl::Seconds(1), [&job, node] { job.Restart(node); });
      }
    });
  });
  job.set_may_roll_back();
  job.Start();
  REQUIRE(job.RunToEnd());
  CheckSucceeded(job);
  CHECK(job.HasEvent("goes on from the checkpoint of round 4"));
  for (int node = 0; node < job.size(); ++node) {
    CHECK(job.Committed(node).rbegin()->first == RoundId{6});
  }
}

TEST_CASE("a round whose lead was gone before it could report it is recorded from its commit by the next one") {
  SimJob job(36);
  bool down = false;
  job.set_on_report([&](const wire::ReportJob& report) {
    if (report.round.value != 1 || std::exchange(down, true)) return;
    const int lead = job.IndexOf(job.epoch().lead);
    job.CrashFromWithin(lead);
    job.executor().PostAfter(absl::Seconds(1), [&job, lead] { job.Restart(lead); });
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  CheckSucceeded(job);
  REQUIRE(down);
  CHECK(job.epoch().epoch == Epoch{1});
  const std::vector<wire::ReportJob>& reports = job.reports();
  for (size_t i = 0; i < reports.size(); ++i) {
    CAPTURE(i);
    CHECK(reports[i].round.value == i);
    CHECK(reports[i].metrics.contributors == reports[0].metrics.contributors);
    CHECK(reports[i].metrics.tokens == reports[0].metrics.tokens);
    CHECK(reports[i].metrics.train_loss.has_value() == (i != 1));
    CHECK(reports[i].theta == job.Committed(0).at(RoundId{i + 1}).commit->receipt.result.theta);
  }
  CHECK(reports.size() == static_cast<size_t>(JobOptions{}.rounds));
}

// The others go on without a member that may come back, but not without their lead: it keeps its place for less.
TEST_CASE("a member that is put out of the network does not keep its place as one that may come back does") {
  const bool put_out = GENERATE(false, true);
  const int node = GENERATE(0, 2);  // the lead, and another
  CAPTURE(put_out, node);
  JobOptions options;
  options.rounds = 40;
  SimJob job(37, options);
  std::optional<absl::Duration> gone_at, epoch_at;
  job.set_on_report([&](const wire::ReportJob& report) {
    const absl::Duration now = job.executor().Monotonic();
    if (report.epoch == Epoch{2} && !epoch_at) epoch_at = now;
    if (report.round.value != 1 || gone_at) return;
    gone_at = now;
    job.executor().Post([&job, put_out, node] { put_out ? job.PutOut(node) : job.Crash(node); });
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  CHECK(job.verdict() == wire::Verdict::kSucceeded);
  CHECK(job.Violations() == "");
  REQUIRE(gone_at);
  REQUIRE(epoch_at);
  const rounds::RoundTimings timings;
  CHECK((*epoch_at - *gone_at < (node == 0 ? timings.lead_down : timings.reconnect)) == put_out);
}

TEST_CASE("a restarted node has its inner state back") {
  SimJob job(35);
  job.network().set_on_message([&](const SimMessage& message) {
    if (message.number != 150) return;
    job.Crash(2);
    job.executor().PostAfter(absl::Seconds(1), [&job] { job.Restart(2); });
  });
  job.Start();
  REQUIRE(job.RunToEnd());
  CheckSucceeded(job);
  CHECK_FALSE(job.HasEvent("is lost"));
}

}  // namespace
}  // namespace gdf::sim
