// Three coordinators, of which some are lost.
#include <signal.h>

#include "tests/integration/cluster/cluster.h"

namespace gdf::cluster {
namespace {

constexpr int kRounds = 60;

// Nodes 0, 1 and 2 coordinate; node 3 may submit jobs.
void Choose(Cluster& cluster) {
  for (const int added : {1, 2}) {
    REQUIRE(cluster.node(0).Ctl({"coordinator", "add", cluster.node(added).name()}).code == 0);
  }
  REQUIRE(cluster.node(0).Ctl({"node", "role", cluster.node(3).name(), "submitter,contributor"}).code == 0);
  cluster.node(3).AwaitStatus([](const Json& status) {
    return status["coordinators"] == 3 && status["leader"] != "" && status["roles"] == "submitter,contributor";
  });
}

Node& LeaderOf(Cluster& cluster) {
  const Json status = cluster.node(3).AwaitStatus([](const Json& s) { return s["leader"] != ""; });
  for (size_t i = 0; i < cluster.size(); ++i) {
    if (cluster.node(static_cast<int>(i)).name() == status["leader"]) return cluster.node(static_cast<int>(i));
  }
  FAIL("no node is called " << status["leader"]);
  return cluster.node(0);
}

}  // namespace

TEST_CASE("the coordinator that leads is killed while a job runs: the job ends well, and the next one is taken within 5 s") {
  Cluster cluster(4);
  const std::string job = cluster.Submit(cluster.node(0), {.rounds = kRounds, .nodes_min = 2});
  JobLog log(cluster.node(3), job);
  log.AwaitRound(2);
  Choose(cluster);  // without the job noticing
  log.AwaitRound(10);
  Node& leader = LeaderOf(cluster);
  leader.Kill(SIGKILL);
  const absl::Duration lost = MonotonicNow();
  const std::string next = cluster.Submit(cluster.node(3), {.rounds = 2});
  CHECK(MonotonicNow() - lost < absl::Seconds(5));
  const Json end = log.AwaitEnd();
  CHECK(end["phase"] == "succeeded");
  CHECK(end["rounds_done"] == kRounds);
  CHECK(&LeaderOf(cluster) != &leader);
  JobLog next_log(cluster.node(3), next);
  CHECK(next_log.AwaitEnd()["phase"] == "succeeded");
  // It comes back and knows what was decided without it.
  leader.Start();
  leader.AwaitStatus([](const Json& status) { return status["coordinator_connected"] == true && status["leader"] != ""; });
  CHECK(leader.Ask({"job", "show", next})["job"]["phase"] == "succeeded");
}

TEST_CASE("most coordinators are lost: a job goes on, nothing is decided, and all goes on when they are back") {
  Cluster cluster(4);
  Choose(cluster);
  Node& leader = LeaderOf(cluster);
  Node& other = &leader == &cluster.node(0) ? cluster.node(1) : cluster.node(0);
  Node& left = &leader != &cluster.node(2) && &other != &cluster.node(2) ? cluster.node(2) : cluster.node(1);
  const std::string job = cluster.Submit(cluster.node(3), {.rounds = 100'000, .nodes_min = 2});
  JobLog log(left, job);
  log.AwaitRound(5);
  leader.Kill(SIGKILL);
  other.Kill(SIGKILL);
  left.AwaitStatus([](const Json& status) { return status["leader"] == "" && status["leaderless_seconds"] > 1.0; });
  CHECK(cluster.node(3).Ctl({"job", "cancel", job}).code != 0);
  leader.Start();
  cluster.node(3).AwaitStatus([](const Json& status) { return status["leader"] != ""; });
  other.Start();
  log.Await("a round that was reported since", [rounds = log.rounds().size()](const Json& update) mutable {
    return update["type"] == "round" && rounds-- == 0;
  });
  CHECK(cluster.node(3).Ctl({"job", "cancel", job}).code == 0);
  CHECK(log.AwaitEnd()["phase"] == "cancelled");
}

TEST_CASE("most coordinators are lost for good: the one that is left recovers the network") {
  Cluster cluster(4);
  Choose(cluster);
  Node& left = cluster.node(1);
  cluster.node(0).Kill(SIGKILL);
  cluster.node(2).Kill(SIGKILL);
  CHECK(left.Gdfd({"--recover-network", "--state-dir", left.state_folder()}).code != 0);  // it runs
  left.Kill(SIGTERM);
  const CtlResult recovered = left.Gdfd({"--recover-network", "--state-dir", left.state_folder()});
  INFO(recovered.err);
  REQUIRE(recovered.code == 0);
  left.Start();
  const Json coordinators = left.Ask({"coordinator", "list"})["coordinators"];
  REQUIRE(coordinators.size() == 1);
  CHECK(coordinators[0]["name"] == left.name());
  CHECK(coordinators[0]["leads"] == true);
  cluster.node(3).AwaitStatus([&](const Json& status) { return status["leader"] == left.name(); });
  const std::string job = cluster.Submit(cluster.node(3), {.rounds = 2});
  JobLog log(cluster.node(3), job);
  CHECK(log.AwaitEnd()["phase"] == "succeeded");
}

}  // namespace gdf::cluster
