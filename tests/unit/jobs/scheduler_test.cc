#include "tests/unit/jobs/job_network.h"
#include "gdfd/jobs/job_request.h"

namespace gdf::jobs {
namespace {

using absl::StatusCode;
using trust::Role;
using trust::RoleSet;

TEST_CASE("A job waits with its reason until enough nodes are there") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  net.Add({Role::kSubmitter});  // does not train
  const JobId id = net.Submit(n1, JobYaml("  count: 3\n"));
  REQUIRE(net.Comes([&] { return !n1.scheduler->WaitingFor(id).empty(); }));
  INFO(n1.scheduler->WaitingFor(id));
  CHECK(n1.scheduler->WaitingFor(id).find("3") != std::string::npos);
  const uint64_t entries = n1.state->last_applied();
  net.Pass(absl::Hours(1));
  CHECK(net.Job(id).phase == state::JobPhase::kPending);
  CHECK(n1.state->last_applied() == entries);  // waiting writes nothing
  auto& n3 = net.Add({Role::kContributor});
  REQUIRE(net.Comes([&] { return n1.scheduler->WaitingFor(id).find("2") != std::string::npos; }));
  net.Crash(n3);
  auto& n4 = net.Add({Role::kContributor});
  net.Pass(absl::Minutes(1));
  CHECK(net.Job(id).phase == state::JobPhase::kPending);  // one of the three is offline
  net.Start(n3);
  REQUIRE(net.Comes([&] { return net.Job(id).phase == state::JobPhase::kRunning; }));
  CHECK(n1.scheduler->WaitingFor(id).empty());
  const std::vector<NodeId> members = net.Job(id).members;
  CHECK(members.size() == 3);
  for (auto* node : {&n1, &n3, &n4})
    CHECK(std::count(members.begin(), members.end(), node->id()) == 1);
}

TEST_CASE("A job that has run for its limits.max_wall_time fails, whoever was restarted meanwhile") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  net.Crash(n2);
  const std::string nodes = "  count: 3\n";  // more than there are: they go on only in this epoch
  const JobId limited = net.Submit(n1, JobYaml(nodes) + "limits:\n  max_wall_time: 1h\n");
  const JobId unlimited = net.Submit(n1, JobYaml(nodes), "another text");
  const JobId waiting = net.Submit(
      n1, JobYaml(nodes) + "limits:\n  max_wall_time: 1m\n", "a third text");
  net.Pass(absl::Hours(2));  // waiting does not count
  for (const JobId id : {limited, unlimited}) {  // led by the node that is away
    REQUIRE(net.Do(n1, wire::OpenEpoch{id, Epoch{1}, {n1.id(), n2.id()}, n2.id(), "test"}).ok());
  }
  net.Pass(absl::Minutes(50));
  net.Crash(n1);
  net.Start(n1);
  net.Pass(absl::Minutes(9));
  CHECK(net.Job(limited).phase == state::JobPhase::kRunning);
  net.Pass(absl::Minutes(2));
  const state::Job ended = net.Job(limited);
  REQUIRE(ended.phase == state::JobPhase::kFinished);
  CHECK(ended.verdict == wire::Verdict::kFailed);
  CHECK(ended.reason == "has run for 1 h 0 min, its limits.max_wall_time");
  CHECK(absl::Milliseconds(ended.finished_unix_ms - ended.started_unix_ms) == absl::Hours(1));
  CHECK(net.HasEvent("job j1 failed: has run for 1 h 0 min"));
  CHECK(net.Job(unlimited).phase == state::JobPhase::kRunning);
  CHECK(net.Job(waiting).phase == state::JobPhase::kPending);
}

TEST_CASE("A second job waits for busy nodes and follows when they are free") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  net.Add({Role::kContributor});
  const JobId first = net.Submit(n1, JobYaml("  count: 2\n"));
  const JobId second = net.Submit(n1, JobYaml("  count: 2\n"), "another text");
  REQUIRE(net.Comes([&] { return net.Job(first).rounds_done == 1; }));
  CHECK(net.Job(second).phase == state::JobPhase::kPending);
  CHECK_FALSE(n1.scheduler->WaitingFor(second).empty());
  REQUIRE(net.Finishes(second));
  CHECK(net.Job(first).verdict == wire::Verdict::kSucceeded);
  CHECK(net.Job(second).verdict == wire::Verdict::kSucceeded);
}

TEST_CASE("Whose jobs have had less is next, and a priority orders one's own") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kSubmitter});
  REQUIRE(net.Comes([&] { return n2.membership->IsOnline(n1.id()); }));
  const std::string nodes = "  count: 1\n";
  const JobId first = net.Submit(n1, JobYaml(nodes));
  REQUIRE(net.Comes([&] { return net.Job(first).phase == state::JobPhase::kRunning; }));
  const JobId second = net.Submit(n1, JobYaml(nodes), "a second text");
  const JobId urgent = net.Submit(n1, JobYaml(nodes) + "priority: 1\n", "a third text");
  const JobId others = net.Submit(n2, JobYaml(nodes), "a fourth text");
  REQUIRE(net.Comes([&] { return n1.scheduler->WaitingFor(second).find("it is number 3 of 3 that wait") != std::string::npos; }));
  CHECK(n1.scheduler->WaitingFor(others).find("it is number 1 of 3 that wait") != std::string::npos);
  REQUIRE(net.Finishes(second));
  REQUIRE(net.Finishes(others));
  REQUIRE(net.Finishes(urgent));
  CHECK(net.Job(others).started_unix_ms < net.Job(urgent).started_unix_ms);
  CHECK(net.Job(urgent).started_unix_ms < net.Job(second).started_unix_ms);
}

TEST_CASE("Free nodes are kept for a job that has waited for long; neither a later job nor a running one gets them") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  auto& n3 = net.Add({Role::kContributor});
  auto& n4 = net.Add({Role::kContributor});
  net.Crash(n3);
  net.Crash(n4);
  REQUIRE(net.Comes([&] { return !n1.membership->IsOnline(n3.id()) && !n1.membership->IsOnline(n4.id()); }));
  // Led by a node that is away, so that it goes on; it would have n4 in its place.
  const JobId running = net.Submit(n1, JobYaml(absl::StrCat("  count: 2\n  where: [", n2.id().ToString(), ", ", n3.id().ToString(), ", ", n4.id().ToString(), "]\n")));
  REQUIRE(net.Do(n1, wire::OpenEpoch{running, Epoch{1}, {std::min(n2.id(), n3.id()), std::max(n2.id(), n3.id())}, n3.id(), "test"}).ok());
  const JobId large = net.Submit(n1, JobYaml("  count: 3\n"), "a second text");
  net.Pass(absl::Minutes(65));
  CHECK(n1.scheduler->WaitingFor(large).find("kept") == std::string::npos);  // two nodes are alive
  net.Start(n4);
  REQUIRE(net.Comes([&] { return n1.scheduler->WaitingFor(large).find("2 free nodes are kept for it") != std::string::npos; }));
  const JobId small = net.Submit(n1, JobYaml("  count: 1\n"), "a third text");
  REQUIRE(net.Comes([&] { return n1.scheduler->WaitingFor(small).find("kept for j2") != std::string::npos; }));
  net.Pass(absl::Minutes(10));
  CHECK(net.Job(small).phase == state::JobPhase::kPending);
  CHECK(net.Job(running).recruits.empty());
  CHECK(net.Job(running).members.size() == 2);
  REQUIRE(net.Do(n1, wire::CancelJob{running, "test"}).ok());
  REQUIRE(net.Finishes(large));
  REQUIRE(net.Finishes(small));
  CHECK(net.Job(large).started_unix_ms < net.Job(small).started_unix_ms);
}

TEST_CASE("A job that no node has the memory for is refused with the sum") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All(), uint64_t{1} << 20);
  const JobId id = net.Submit(n1, JobYaml("  count: 1\n"));
  REQUIRE(net.Finishes(id));
  CHECK(net.Job(id).verdict == wire::Verdict::kFailed);
  INFO(net.Job(id).reason);
  CHECK(net.Job(id).reason.find("cannot be placed: ") == 0);
  CHECK(net.Job(id).reason.find("1.0 MiB") != std::string::npos);
}

TEST_CASE("Any node can tell where a job would run") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kSubmitter});
  REQUIRE(net.Comes([&] { return n2.membership->IsOnline(n1.id()); }));
  const config::JobSpec spec = *config::ParseJobSpec(JobYaml("  count: 1\n"), "job.yaml");
  for (auto* node : {&n1, &n2}) {
    const auto placement =
        Preview(*node->state, *node->membership, MakeJobRequest(JobId{}, spec, 100));
    REQUIRE(placement.ok());
    CHECK(placement->verdict == schedule::Verdict::kPlaced);
    CHECK(placement->lead == n1.id());
  }
}

TEST_CASE("A spec whose shape is in a model's folder counts with the memory it states") {
  config::JobSpec spec = *config::ParseJobSpec(JobYaml("  count: 1\n"), "job.yaml");
  const schedule::JobRequest estimated = MakeJobRequest(JobId{3}, spec, 1000);
  CHECK(estimated.id == JobId{3});
  CHECK(estimated.host_memory_on_cpu.total_bytes() > 0);
  CHECK(estimated.gpu_memory.total_bytes() > 0);
  spec.model.shape.reset();
  spec.nodes.memory_bytes = 12345;
  spec.nodes.gpu_memory_bytes = 678;
  const schedule::JobRequest stated = MakeJobRequest(JobId{3}, spec, 1000);
  CHECK(stated.host_memory_on_cpu.total_bytes() == 12345);
  CHECK(stated.host_memory_on_gpu.total_bytes() == 12345);
  CHECK(stated.gpu_memory.total_bytes() == 678);
}

TEST_CASE("Who may ask for an epoch, and whose word about whom counts") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  auto& n3 = net.Add({Role::kContributor});
  auto& n4 = net.Add({Role::kContributor});
  for (int n = 1; n <= 4; ++n) {
    net.node(n).fault = [](std::string_view call,
                           RoundId) {  // rounds do not get far enough to ask by themselves
      return call == "never" ? absl::InternalError("") : absl::OkStatus();
    };
  }
  const JobId id = net.Submit(n1, JobYaml("  min: 2\n  max: 3\n"));
  REQUIRE(net.Comes([&] { return net.Job(id).phase == state::JobPhase::kRunning; }));
  const state::Job job = net.Job(id);
  REQUIRE(job.members.size() == 3);
  JobNetwork::Node *lead = nullptr, *member = nullptr, *other = nullptr, *outside = nullptr;
  for (auto* node : {&n1, &n2, &n3, &n4}) {
    const bool in = std::count(job.members.begin(), job.members.end(), node->id()) == 1;
    (!in ? outside : node->id() == job.lead ? lead : member == nullptr ? member : other) = node;
  }
  const auto ask = [&](JobNetwork::Node& from, Epoch current, std::vector<NodeId> lost) {
    wire::EpochCall call{id, current, std::move(lost), "test"};
    return net.Await(n1.scheduler->RequestEpoch(from.id(), std::move(call)));
  };
  CHECK(Says(ask(*outside, Epoch{1}, {}), StatusCode::kPermissionDenied, "no member of job j1"));
  CHECK(ask(*member, Epoch{0}, {other->id()}).ok());  // of an earlier epoch: heard, nothing to do
  CHECK(net.Job(id).epoch == Epoch{1});

  // One member's word about a node that is online does not count, however often it is given.
  for (const NodeId& lost : {other->id(), lead->id(), lead->id()}) {
    CHECK(Says(ask(*member, Epoch{1}, {lost}), StatusCode::kUnavailable, "job j1 keeps its nodes"));
  }
  CHECK(net.Job(id).epoch == Epoch{1});
  SECTION("that of the others does; who spoke does not lead for it") {
    REQUIRE(ask(*other, Epoch{1}, {lead->id()}).ok());
    std::vector<NodeId> left = {member->id(), other->id()};
    std::sort(left.begin(), left.end());
    CHECK(net.Job(id).epoch == Epoch{2});
    CHECK(net.Job(id).members == left);
    CHECK(net.Job(id).lead == left[0]);
  }
  SECTION("the lead alone leaves out a minority, once") {
    REQUIRE(ask(*lead, Epoch{1}, {other->id()}).ok());
    CHECK(net.Job(id).epoch == Epoch{2});
    CHECK(net.Job(id).members.size() == 2);
    CHECK(net.Job(id).lead == lead->id());
    CHECK(Says(ask(*lead, Epoch{2}, {member->id()}), StatusCode::kUnavailable, "keeps its nodes"));
  }
  SECTION("about itself a node's word counts; below the minimum the epoch stays") {
    REQUIRE(ask(*member, Epoch{1}, {member->id()}).ok());
    CHECK(net.Job(id).epoch == Epoch{2});
    CHECK(net.Job(id).members.size() == 2);
    CHECK(net.Job(id).lead == lead->id());
    CHECK(Says(ask(*other, Epoch{2}, {other->id()}), StatusCode::kUnavailable,
               "needs 2 nodes and has 1 left"));
    CHECK(net.Job(id).epoch == Epoch{2});
    REQUIRE(net.Do(n1, wire::CancelJob{id, ""}).ok());
    CHECK(Says(ask(*lead, Epoch{2}, {}), StatusCode::kFailedPrecondition, "not running"));
  }
}

TEST_CASE("Members that a coordinator has not seen since its start are not left out for that until they had time to come") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  net.Add({Role::kContributor});
  net.Add({Role::kContributor});
  // Of more rounds than pass here: members whose lead is gone ask for themselves, and go on.
  const JobId id = net.Submit(n1, JobYaml("  min: 1\n  max: 3\n", "", 1000));
  REQUIRE(net.Comes([&] { return net.Job(id).phase == state::JobPhase::kRunning; }));
  REQUIRE(net.Job(id).members.size() == 3);
  const auto ask = [&](const NodeId& from) {
    wire::EpochCall call{id, Epoch{1}, {}, "test"};
    return net.Await(n1.scheduler->RequestEpoch(from, std::move(call)));
  };
  net.Crash(n1);
  net.Crash(net.node(3));
  net.Start(n1);
  CHECK(Says(ask(net.node(2).id()), StatusCode::kUnavailable, "job j1 keeps its nodes"));
  SECTION("one that never comes leaves then") {
    REQUIRE(net.Comes([&] { return n1.membership->IsOnline(net.node(2).id()); }));
    CHECK(Says(ask(net.node(2).id()), StatusCode::kUnavailable, "job j1 keeps its nodes"));
    net.Pass(Absences::kGrace);
    REQUIRE(ask(net.node(2).id()).ok());
  }
  SECTION("one that has come and gone leaves at once") {
    net.Start(net.node(3));
    REQUIRE(net.Comes([&] { return n1.membership->IsOnline(net.node(3).id()); }));
    net.Crash(net.node(3));
    REQUIRE(net.Comes([&] { return !n1.membership->IsOnline(net.node(3).id()); }));
    REQUIRE(ask(net.node(2).id()).ok());
  }
  CHECK(net.Job(id).epoch == Epoch{2});
  const std::vector<NodeId> left = net.Job(id).members;
  CHECK(std::count(left.begin(), left.end(), net.node(3).id()) == 0);
}

TEST_CASE("Reports of quick rounds are summed up, and the last one is sent") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  // A job that does not go on by itself: it wants more nodes than there are, and one of its members
  // is gone.
  const JobId id = net.Submit(n1, JobYaml("  count: 3\n"));
  net.Crash(n2);
  REQUIRE(net.Do(n1, wire::OpenEpoch{id, Epoch{1}, {n1.id(), n2.id()}, n1.id(), "test"}).ok());
  NetworkCoordinator reports(*n1.transport, *n1.state, *n1.membership,
                             [&] { return n1.scheduler.get(); });
  const auto report = [&](uint64_t round, uint64_t tokens, double loss,
                          std::optional<double> valid_loss) {
    wire::ReportJob r;
    r.job = id;
    r.epoch = Epoch{1};
    r.round = RoundId{round};
    r.theta = HashBytes("theta" + std::to_string(round));
    r.metrics.train_loss = loss;
    r.metrics.valid_loss = valid_loss;
    r.metrics.tokens = tokens;
    r.metrics.tokens_per_sec = 100;
    r.metrics.bytes_sent = 10;
    r.metrics.compute_sec = 0.25;
    REQUIRE(net.Await(reports.ReportJob(std::move(r))).ok());
  };
  const auto recorded = [&] { return *n1.state->rounds(id, RoundId{0}); };
  report(0, 100, 4.0, std::nullopt);
  REQUIRE(recorded().size() == 1);
  CHECK(recorded()[0].metrics.tokens == 100);
  report(1, 100, 3.0, std::nullopt);  // within half a second: held
  CHECK(recorded().size() == 1);
  report(2, 300, 1.0, std::nullopt);  // the job's last round: sent with what was held
  REQUIRE(recorded().size() == 2);
  const wire::RoundMetrics sum = recorded()[1].metrics;
  CHECK(recorded()[1].round == RoundId{2});
  CHECK(sum.tokens == 400);
  CHECK(*sum.train_loss == Approx((100 * 3.0 + 300 * 1.0) / 400));
  CHECK(sum.tokens_per_sec == Approx(100));  // 1 s and 3 s
  CHECK(sum.bytes_sent == 20);
  CHECK(sum.compute_sec == Approx(0.5));
}

}  // namespace
}  // namespace gdf::jobs
