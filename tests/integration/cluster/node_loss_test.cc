// kill -9 of nodes while they train.
#include <signal.h>

#include <fstream>
#include <sstream>

#include "tests/integration/cluster/cluster.h"

namespace gdf::cluster {
namespace {

constexpr int kRounds = 60;
// How long a link that broke may take to come back (core/rounds/round_env.h).
constexpr absl::Duration kReconnect = absl::Seconds(10);

// A job of kRounds on the nodes of these numbers.
std::string SubmitOn(Cluster& cluster, const std::vector<int>& nodes, int min) {
  std::string where;
  for (const int number : nodes)
    where += (where.empty() ? "[" : ", ") + cluster.node(number).name();
  const std::string file = cluster.job_file();
  std::ifstream in(file);
  std::stringstream yaml;
  yaml << in.rdbuf();
  std::string text = yaml.str();
  const std::string from = "nodes: {";
  text.replace(text.find(from), from.size(), "nodes: {where: " + where + "], ");
  std::ofstream(file) << text;
  return cluster.Submit(
      cluster.node(0),
      {.rounds = kRounds, .nodes_min = min, .nodes_max = static_cast<int>(nodes.size())});
}

Node& LeadOf(Cluster& cluster, const std::string& job) {
  return cluster.NodeWithId(cluster.node(0).Ask({"job", "show", job})["job"]["lead"]);
}

// Rounds are told in order, each once. A lead that is killed takes the report of its last round
// with it.
void CheckRounds(const JobLog& log, uint64_t count, uint64_t untold = 0) {
  CHECK(log.rounds().size() >= count - untold);
  CHECK(log.rounds().back()["round"] == count - 1);
  for (size_t i = 1; i < log.rounds().size(); ++i)
    CHECK(log.rounds()[i]["round"] > log.rounds()[i - 1]["round"]);
}

}  // namespace

TEST_CASE("a member that is killed and comes back at once goes on in the same epoch") {
  Cluster cluster(3);
  const std::string job = cluster.Submit(cluster.node(0), {.rounds = kRounds, .nodes_min = 3});
  JobLog log(cluster.node(0), job);
  log.AwaitRound(5);
  Node& lead = LeadOf(cluster, job);
  Node& victim = &lead == &cluster.node(1) ? cluster.node(2) : cluster.node(1);
  victim.Restart(SIGKILL);
  const Json end = log.AwaitEnd();
  CHECK(end["phase"] == "succeeded");
  CHECK(end["epoch"] == 1);
  CHECK(end["members"].size() == 3);
  CHECK(log.rounds().back()["members"] == 3);
  CheckRounds(log, kRounds);
}

TEST_CASE("a member that stays away is left out, and finds the job's end when it comes back") {
  Cluster cluster(3);
  // More rounds than pass while its place is kept: the test ends the job.
  const std::string job = cluster.Submit(cluster.node(0), {.rounds = 100'000, .nodes_min = 2});
  JobLog log(cluster.node(0), job);
  log.AwaitRound(5);
  Node& lead = LeadOf(cluster, job);
  Node& victim = &lead == &cluster.node(1) ? cluster.node(2) : cluster.node(1);
  victim.Kill(SIGKILL);
  log.AwaitEvent("lost node");
  const auto of_epoch = [](uint64_t epoch) {
    return [epoch](const Json& update) {
      return update["type"] == "round" && update["round"]["epoch"] == epoch &&
             update["round"]["members"] == 2;
    };
  };
  log.Await("a round without it", of_epoch(1));
  log.Await("a round of an epoch without it", of_epoch(2));
  CHECK(cluster.node(0).Ctl({"job", "cancel", job}).code == 0);
  const Json end = log.AwaitEnd();
  CHECK(end["phase"] == "cancelled");
  CHECK(end["epoch"] == 2);
  CHECK(end["members"].size() == 2);
  victim.Start();
  victim.AwaitStatus([](const Json& status) { return status["coordinator_connected"] == true; });
  CHECK(victim.Ask({"job", "show", job})["job"]["phase"] == "cancelled");
}

TEST_CASE("a member that was left out is called back, and a node that is new takes a free place") {
  Cluster cluster(3);
  const std::string job = cluster.Submit(cluster.node(0), {.rounds = 100'000, .nodes_min = 1, .nodes_max = 4});
  JobLog log(cluster.node(0), job);
  log.AwaitRound(5);
  const auto with = [&log](uint64_t members) {
    return log.Await("a round with so many contributions", [members](const Json& update) {
      return update["type"] == "round" && update["round"]["members"] == members;
    });
  };
  with(3);
  Node& lead = LeadOf(cluster, job);
  Node& victim = &lead == &cluster.node(1) ? cluster.node(2) : cluster.node(1);
  victim.Kill(SIGKILL);
  with(2);
  log.AwaitEvent("with 2 nodes");
  victim.Start();
  log.AwaitEvent("is called to join: it was a member before");
  log.AwaitEvent("with 3 nodes");
  with(3);
  Node& fresh = cluster.AddNode();
  fresh.Start();
  cluster.Join(fresh);
  log.AwaitEvent("is called to join: there is a place");
  log.AwaitEvent("with 4 nodes");
  with(4);
  CHECK(cluster.node(0).Ctl({"job", "cancel", job}).code == 0);
  const Json end = log.AwaitEnd();
  CHECK(end["members"].size() == 4);
  // The newcomer has what the others have.
  const std::string folder = cluster.folder() + "/export";
  CHECK(fresh.Ctl({"job", "export", job, folder}).code == 0);
}

TEST_CASE("a node is drained while it trains, takes nothing, and is called back when it is resumed") {
  Cluster cluster(3);
  const std::string job = cluster.Submit(cluster.node(0), {.rounds = 100'000, .nodes_min = 2});
  JobLog log(cluster.node(0), job);
  log.AwaitRound(5);
  Node& lead = LeadOf(cluster, job);
  const CtlResult drained = lead.Ctl({"drain"});
  INFO(drained.err);
  CHECK(drained.code == 0);
  CHECK(lead.Workers().empty());
  CHECK(lead.Ask({"status"})["running_here"] == 0);
  log.AwaitEvent("is paused by its owner");
  CHECK_FALSE(log.HasEvent("lost node"));
  CHECK(LeadOf(cluster, job).id() != lead.id());
  const uint64_t reached = log.rounds().back()["round"];
  log.AwaitRound(reached + 5);

  lead.Restart(SIGTERM);
  CHECK(lead.Ask({"status"})["paused"] == true);
  CHECK(lead.Ask({"resume"})["paused"] == false);
  log.AwaitEvent("with 3 nodes");
  lead.AwaitStatus([](const Json& status) { return status["running_here"] == 1; });
  CHECK(lead.Ctl({"pause", "1h", "--now"}).code == 0);
  lead.AwaitStatus([](const Json& status) { return status["running_here"] == 0; });
  CHECK(lead.Workers().empty());
  CHECK(cluster.node(0).Ctl({"job", "cancel", job}).code == 0);
  CheckRounds(log, log.rounds().back()["round"].get<uint64_t>() + 1, 1);
}

TEST_CASE("a job whose lead is killed gets another lead") {
  Cluster cluster(4);
  const std::string job = SubmitOn(cluster, {1, 2, 3}, 2);  // none of them coordinates
  JobLog log(cluster.node(0), job);
  log.AwaitRound(5);
  Node& lead = LeadOf(cluster, job);
  const std::string id = lead.id();
  lead.Kill(SIGKILL);
  const absl::Duration killed = MonotonicNow();
  log.Await("a round of another lead", [](const Json& update) {
    return update["type"] == "round" && update["round"]["epoch"] == 2;
  });
  CHECK(MonotonicNow() - killed < kReconnect);  // not once its silence was too long
  const Json end = log.AwaitEnd();
  CHECK(end["phase"] == "succeeded");
  CHECK(end["lead"] != id);
  CHECK(end["members"].size() == 2);
  CheckRounds(log, kRounds, 1);
}

TEST_CASE(
    "a job goes on while its coordinator is away, which has lost nothing when it comes back") {
  Cluster cluster(3);
  Node& coordinator = cluster.node(0);
  const std::string job = SubmitOn(cluster, {1, 2}, 2);
  JobLog log(coordinator, job);
  log.AwaitRound(5);
  const std::string invite = coordinator.Ask({"invite", "--ttl", "1h"})["id"];
  coordinator.Kill(SIGKILL);
  // What members told it last is not new any more: their parameters are.
  const auto parameters = [&] {
    const std::string folder = cluster.folder() + "/export";
    REQUIRE(cluster.node(1).Ctl({"job", "export", job, folder, "--force"}).code == 0);
    std::ifstream file(folder + "/model.safetensors", std::ios::binary);
    std::stringstream bytes;
    bytes << file.rdbuf();
    return bytes.str();
  };
  const std::string before = parameters();
  const absl::Duration until = MonotonicNow() + kDeadline;
  while (parameters() == before) REQUIRE(MonotonicNow() < until);

  coordinator.Start();
  CHECK(coordinator.Ask({"invite", "list"})["invites"].back()["id"] == invite);
  const Json end = log.AwaitEnd();
  CHECK(end["phase"] == "succeeded");
  CHECK(end["epoch"] == 1);
  CHECK(end["rounds_done"] == kRounds);
}

TEST_CASE("a job that lacks nodes waits visibly and goes on when they are back") {
  Cluster cluster(2);
  const std::string job = cluster.Submit(cluster.node(0), {.rounds = kRounds, .nodes_min = 2});
  JobLog log(cluster.node(0), job);
  log.AwaitRound(5);
  cluster.node(1).Kill(SIGKILL);
  // Whoever leads: that a member is lost, or that the lead is and there is nobody else.
  log.Await("a warning", [](const Json& update) {
    return update["type"] == "event" && update["event"]["severity"] == "warning";
  });
  const Json waiting = cluster.node(0).Ask({"job", "show", job})["job"];
  CHECK(waiting["phase"] == "running");
  CHECK(waiting["reason"] != "");
  cluster.node(1).Start();
  const Json end = log.AwaitEnd();
  CHECK(end["phase"] == "succeeded");
  CHECK(end["members"].size() == 2);
  CheckRounds(log, kRounds);
}

}  // namespace gdf::cluster
