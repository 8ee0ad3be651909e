// Jobs that are sent back to a checkpoint, by people or by themselves.
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

// All workers' losses are 5 above what they should be from round `from` on, while `wrong`.
void Spoil(const std::vector<JobNetwork::Node*>& nodes, uint64_t from, std::shared_ptr<bool> wrong) {
  for (auto* node : nodes) {
    node->trouble.loss_plus = [from, wrong](RoundId round) { return *wrong && round.value >= from ? 5.0 : 0.0; };
  }
}

TEST_CASE("A job whose loss jumps and stays there goes back by itself to what it was before") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  const auto wrong = std::make_shared<bool>(true);
  Spoil({&n1, &n2}, 6, wrong);
  const JobId id = net.Submit(n1, Yaml(2, 2));
  REQUIRE(net.Comes([&] { return net.Job(id).rollback.has_value(); }));
  *wrong = false;
  const state::Rollback back = *net.Job(id).rollback;
  CHECK(back.round == RoundId{4});  // the newest that is kept, of those from which the loss was as it should be
  CHECK(back.by_lead == 1);
  CHECK(back.reason.find("after round 9: the members' mean loss, 5.") == 0);
  CHECK(net.HasEvent("goes back by itself from 9 rounds to 4: after round 9: "));
  CheckEnd(net, id, {&n1, &n2});
  CHECK(net.Job(id).theta == UndisturbedTheta(2));
}

TEST_CASE("A validation loss that is not finite sends the job back too") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  for (auto* node : {&n1, &n2}) {
    node->fault = [&net](std::string_view call, RoundId round) {
      const bool wrong = call == "evaluate" && round == RoundId{7} && !net.Job(JobId{1}).rollback;
      return wrong ? absl::DataLossError("the validation loss is nan") : absl::OkStatus();
    };
  }
  const JobId id = net.Submit(n1, Yaml(2, 2));
  CheckEnd(net, id, {&n1, &n2});
  REQUIRE(net.Job(id).rollback);
  CHECK(net.Job(id).rollback->round == RoundId{6});
  CHECK(net.HasEvent("the validation loss is nan"));
}

TEST_CASE("A job that goes wrong again and again goes back so often as it may, then fails and says why") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  Spoil({&n1, &n2}, 6, std::make_shared<bool>(true));
  const JobId id = net.Submit(n1, Yaml(2, 2));
  REQUIRE(net.Finishes(id));
  const state::Job job = net.Job(id);
  INFO(job.reason);
  CHECK(job.verdict == wire::Verdict::kFailed);
  REQUIRE(job.rollback);
  CHECK(job.rollback->by_lead == 2);
  CHECK(job.reason.find("after round 9: the members' mean loss, 5.") == 0);
  CHECK(job.reason.find("; it cannot go back: it has done so 2 times, and rounds.anomalies.rollbacks is 2") != std::string::npos);
}

TEST_CASE("A job that keeps no checkpoints goes on when its loss jumps, and fails when it is not finite") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  Spoil({&n1, &n2}, 5, std::make_shared<bool>(true));
  const bool finite = GENERATE(true, false);
  for (auto* node : {&n1, &n2}) {
    node->fault = [finite](std::string_view call, RoundId round) {
      return !finite && call == "run" && round.value >= 9 ? absl::DataLossError("the loss is not finite") : absl::OkStatus();
    };
  }
  const JobId id = net.Submit(n1, JobYaml("  min: 2\n  max: 2\n", "", kRounds));
  REQUIRE(net.Finishes(id));
  const state::Job job = net.Job(id);
  INFO(job.reason);
  CHECK_FALSE(job.rollback);
  CHECK(net.HasEvent("after round 8: the members' mean loss, 5."));
  CHECK(net.HasEvent("it goes on, as there is no checkpoint to go back to (checkpoints.every)"));
  CHECK(job.verdict == (finite ? wire::Verdict::kSucceeded : wire::Verdict::kFailed));
  if (finite) return;
  CHECK(job.reason.find("no member has a delta that can be used in round 10") == 0);
  CHECK(job.reason.find("no node that answers keeps a checkpoint of at most 4 rounds; checkpoints.every of job.yaml") != std::string::npos);
}

TEST_CASE("A lead that takes over in the middle of it knows what the loss was before") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  auto& n3 = net.Add({Role::kContributor});
  const auto wrong = std::make_shared<bool>(true);
  Spoil({&n1, &n2, &n3}, 6, wrong);
  const JobId id = net.Submit(n1, JobYaml("  min: 2\n  max: 3\n", "  keep_model: true\ncheckpoints:\n  every: 2\n  keep: 20\n", 16));
  REQUIRE(Reaches(net, id, 7));
  auto& lead = net.Job(id).lead == n2.id() ? n2 : n3;
  REQUIRE(net.Job(id).lead == lead.id());  // n1 is the coordinator
  net.Crash(lead);
  REQUIRE(net.Comes([&] { return net.Job(id).rollback.has_value(); }));
  CHECK(net.Job(id).rollback->round <= RoundId{4});
  *wrong = false;
  REQUIRE(net.Finishes(id));
  CHECK(net.Job(id).verdict == wire::Verdict::kSucceeded);
}

}  // namespace
}  // namespace gdf::jobs
