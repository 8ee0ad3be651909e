// Jobs that are sent back to a checkpoint by hand.
#include "gdfd/jobs/checkpoints.h"
#include "tests/unit/jobs/job_network.h"

namespace gdf::jobs {
namespace {

using trust::Role;
using trust::RoleSet;

constexpr int kRounds = 10;

std::string Yaml(int nodes, int min, int replicas = 3) {
  return JobYaml(absl::StrCat("  min: ", min, "\n  max: ", nodes, "\n"),
                 absl::StrCat("  keep_model: true\ncheckpoints:\n  every: 2\n  keep: 10\n  replicas: ", replicas, "\n"), kRounds);
}

// θ that `node` keeps of the round.
Digest ThetaAfter(JobNetwork& net, JobNetwork::Node& node, JobId id, uint64_t round) {
  const absl::StatusOr<CheckedCheckpoint> checked = net.Await(node.host->checkpoints().Verify(id, RoundId{round}));
  INFO(checked.status());
  REQUIRE(checked.ok());
  return checked->version.state().theta;
}

bool Reaches(JobNetwork& net, JobId id, uint64_t rounds) {
  return net.Comes([&] { return net.Job(id).rounds_done >= rounds; });
}

// Ends with all rounds, and the θ that the nodes have is the one that was reported.
void CheckEnd(JobNetwork& net, JobId id, const std::vector<JobNetwork::Node*>& nodes) {
  REQUIRE(net.Finishes(id));
  const state::Job job = net.Job(id);
  INFO(job.reason);
  REQUIRE(job.verdict == wire::Verdict::kSucceeded);
  CHECK(job.rounds_done == kRounds);
  for (auto* node : nodes) {
    REQUIRE(net.Comes([&] { return node->state->job(id)->phase == state::JobPhase::kFinished && node->host->Find(id) == nullptr; }));
    const absl::StatusOr<std::shared_ptr<const Artifacts>> opened = net.Await(node->host->Open(id));
    INFO(opened.status());
    REQUIRE(opened.ok());
    CHECK((*opened)->state->id.theta == job.theta);
  }
}

Digest UndisturbedTheta(int nodes) {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  for (int i = 1; i < nodes; ++i) net.Add({Role::kContributor});
  const JobId id = net.Submit(n1, Yaml(nodes, nodes));
  CheckEnd(net, id, {&n1});
  return net.Job(id).theta;
}

TEST_CASE("A job that is sent back goes on from there, bit for bit as if nothing had come between") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  auto& n3 = net.Add({Role::kContributor});
  const int replicas = GENERATE(3, 1);  // of the parameters: the inner state is each node's own
  const JobId id = net.Submit(n1, Yaml(3, 3, replicas));
  REQUIRE(Reaches(net, id, 7));
  const Digest kept = ThetaAfter(net, n1, id, 4);
  REQUIRE(net.Do(n1, wire::RollBackJob{id, RoundId{4}, kept, "to see"}).ok());
  CHECK(net.Job(id).rounds_done == 4);
  CHECK(net.HasEvent("is rolled back from 7 rounds to 4: to see"));
  // What is given meanwhile is what the job went back to, or later.
  const absl::StatusOr<std::shared_ptr<const Artifacts>> opened = net.Await(n2.host->Open(id));
  if (opened.ok() && (*opened)->state->id.round == RoundId{4}) CHECK((*opened)->state->id.theta == kept);
  CheckEnd(net, id, {&n1, &n2, &n3});
  CHECK(net.Job(id).theta == UndisturbedTheta(3));
  CHECK(net.HasEvent("goes on from the checkpoint of round 4"));
  CHECK_FALSE(net.HasEvent("inner optimiser state of round 4 is lost"));
}

TEST_CASE("Nodes that do not have the checkpoint themselves fetch it from those that have") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  auto& n3 = net.Add({Role::kContributor});
  const JobId id = net.Submit(n1, Yaml(3, 3));
  REQUIRE(Reaches(net, id, 7));
  const Digest kept = ThetaAfter(net, n1, id, 4);
  for (auto* node : {&n2, &n3}) {
    checkpoint::VersionStore::Options options;
    options.folder = "/jobs/j1/checkpoints";
    options.owner = "j1";
    REQUIRE(checkpoint::VersionStore(node->files, node->chunks, options).Remove(RoundId{4}).ok());
  }
  REQUIRE(net.Do(n1, wire::RollBackJob{id, RoundId{4}, kept, ""}).ok());
  CheckEnd(net, id, {&n1, &n2, &n3});
  CHECK(net.HasEvent("inner optimiser state of round 4 is lost"));  // of those two
  CHECK(ThetaAfter(net, n3, id, 4) == kept);
}

TEST_CASE("Who was away goes back when it returns: what it had counts no more") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  auto& n3 = net.Add({Role::kContributor});
  const JobId id = net.Submit(n1, Yaml(3, 2));
  REQUIRE(Reaches(net, id, 7));
  const Digest kept = ThetaAfter(net, n1, id, 4);
  net.Crash(n3);
  SECTION("before the others have gone on") {
    REQUIRE(net.Do(n1, wire::RollBackJob{id, RoundId{4}, kept, ""}).ok());
  }
  SECTION("after that") {
    REQUIRE(net.Do(n1, wire::RollBackJob{id, RoundId{4}, kept, ""}).ok());
    REQUIRE(Reaches(net, id, 6));
  }
  net.Start(n3);
  CheckEnd(net, id, {&n1, &n2, &n3});
  // Nobody went on from what there was before.
  const std::vector<state::RoundRecord> rounds = *n1.state->rounds(id, RoundId{4}, 100);
  REQUIRE_FALSE(rounds.empty());
  for (const state::RoundRecord& round : rounds) CHECK(round.epoch >= net.Job(id).rollback->epoch);
  CHECK(ThetaAfter(net, n1, id, 6) == ThetaAfter(net, n2, id, 6));
}

TEST_CASE("A crash of all nodes at any time of a rollback leaves the job going on from there") {
  const Digest undisturbed = UndisturbedTheta(2);
  for (const int milliseconds : {0, 1, 5, 20, 50, 100, 500, 1000, 2000, 5000}) {
    CAPTURE(milliseconds);
    JobNetwork net;
    auto& n1 = net.Add(RoleSet::All());
    auto& n2 = net.Add({Role::kContributor});
    const JobId id = net.Submit(n1, Yaml(2, 2));
    REQUIRE(Reaches(net, id, 7));
    const Digest kept = ThetaAfter(net, n1, id, 4);
    REQUIRE(net.Do(n1, wire::RollBackJob{id, RoundId{4}, kept, ""}).ok());
    net.Pass(absl::Milliseconds(milliseconds));
    for (auto* node : {&n1, &n2}) net.Crash(*node);
    for (auto* node : {&n2, &n1}) net.Start(*node);
    CheckEnd(net, id, {&n1, &n2});
    const std::vector<state::RoundRecord> rounds = *n1.state->rounds(id, RoundId{4}, 100);
    for (const state::RoundRecord& round : rounds) CHECK(round.epoch >= net.Job(id).rollback->epoch);
    // A crash after a round was prepared or committed can cost the workers' states of it, rollback or not.
    const bool with_inner_states = !net.HasEvent("inner optimiser state") && !net.HasEvent("had prepared");
    if (with_inner_states) CHECK(net.Job(id).theta == undisturbed);
  }
}

TEST_CASE("A rollback can be taken back, and repeated") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  const JobId id = net.Submit(n1, Yaml(2, 2));
  REQUIRE(Reaches(net, id, 8));
  REQUIRE(net.Comes([&] { return n1.files.Exists("/jobs/j1/checkpoints/checkpoint-0000000000000008"); }));
  const Digest early = ThetaAfter(net, n1, id, 2), late = ThetaAfter(net, n1, id, 8);
  REQUIRE(net.Do(n1, wire::RollBackJob{id, RoundId{2}, early, ""}).ok());
  REQUIRE(net.Do(n1, wire::RollBackJob{id, RoundId{8}, late, ""}).ok());
  CheckEnd(net, id, {&n1, &n2});
  CHECK(net.Job(id).theta == UndisturbedTheta(2));
  CHECK(ThetaAfter(net, n2, id, 8) == late);
}

TEST_CASE("A job whose nodes have done its last round goes back all the same") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  const JobId id = net.Submit(n1, Yaml(2, 2));
  REQUIRE(Reaches(net, id, kRounds));
  REQUIRE(net.Job(id).phase == state::JobPhase::kRunning);
  const Digest kept = ThetaAfter(net, n1, id, 4);
  REQUIRE(net.Do(n1, wire::RollBackJob{id, RoundId{4}, kept, ""}).ok());
  CheckEnd(net, id, {&n1, &n2});
  CHECK(net.HasEvent("goes on from the checkpoint of round 4"));
}

}  // namespace
}  // namespace gdf::jobs
