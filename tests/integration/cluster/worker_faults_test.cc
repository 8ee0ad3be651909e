// The worker dies, runs out of memory or hangs: an event says so, gdfd lives, the job goes on or
// ends clearly.
#include <signal.h>

#include <fstream>

#include "absl/strings/match.h"
#include "tests/integration/cluster/cluster.h"

namespace gdf::cluster {
namespace {

constexpr int kRounds = 60;

// The only worker of a node that takes part in a running job.
pid_t WorkerOf(const Node& node) {
  const std::vector<pid_t> workers = node.Workers();
  REQUIRE(workers.size() == 1);
  return workers[0];
}

// Text of 81,920 different characters (U+10000 to U+23FFF, four bytes each in UTF-8). Where a job may
// run is decided before its text is read, for a vocabulary of 512.
void WriteManyCharacters(const std::string& path) {
  std::ofstream file(path);
  for (unsigned c = 0x10000; c < 0x24000; ++c) {
    file << '\xF0' << static_cast<char>(0x80 | (c >> 12 & 0x3F))
         << static_cast<char>(0x80 | (c >> 6 & 0x3F)) << static_cast<char>(0x80 | (c & 0x3F));
  }
}

Node& MemberThatFollows(Cluster& cluster, const std::string& job) {
  const std::string lead = cluster.node(0).Ask({"job", "show", job})["job"]["lead"];
  return cluster.node(0).id() == lead ? cluster.node(1) : cluster.node(0);
}

}  // namespace

TEST_CASE("a worker that is killed is started again where the job needs its node") {
  Cluster cluster(2);
  const std::string job = cluster.Submit(cluster.node(0), {.rounds = kRounds, .nodes_min = 2});
  JobLog log(cluster.node(0), job);
  log.AwaitRound(3);
  const bool lead = GENERATE(false, true);
  Node& follower = MemberThatFollows(cluster, job);
  Node& node = !lead ? follower : &follower == &cluster.node(0) ? cluster.node(1) : cluster.node(0);
  const pid_t daemon = node.pid();
  kill(WorkerOf(node), SIGKILL);
  const Json event = log.AwaitEvent("killed by SIGKILL");
  CHECK(event["node"] == node.id());
  CHECK(event["severity"] != "info");
  const Json end = log.AwaitEnd();
  INFO(log.Text());
  CHECK(end["phase"] == "succeeded");
  CHECK(end["rounds_done"] == kRounds);
  CHECK(log.rounds().back()["members"] == 2);
  CHECK(node.pid() == daemon);
}

TEST_CASE("a job goes on without the node whose worker is killed where it has enough others") {
  Cluster cluster(3);
  const std::string job = cluster.Submit(cluster.node(0), {.rounds = kRounds, .nodes_min = 2});
  JobLog log(cluster.node(0), job);
  log.AwaitRound(3);
  Node& node = MemberThatFollows(cluster, job);
  kill(WorkerOf(node), SIGKILL);
  log.AwaitEvent("killed by SIGKILL");
  CHECK(log.AwaitEnd()["phase"] == "succeeded");
  node.Ask({"status"});
}

TEST_CASE("a job that takes more memory than its node gives fails, naming the node and the limit") {
  Cluster cluster(1, "limits: {memory: 560MiB}\n");
  Node& node = cluster.node(0);
  const pid_t daemon = node.pid();
  WriteManyCharacters(cluster.text_file());
  std::vector<std::string> arguments =
      cluster.JobArguments({.rounds = 2,
                            .set = {"data.tokenizer=char", "model.gpt2.width=512",
                                    "model.gpt2.ffn_width=64"},
                            .arguments = {"--wait"}});
  arguments.insert(arguments.begin(), "submit");
  const CtlResult result = node.Ctl(arguments);
  INFO(result.out << result.err);
  CHECK(result.code == 1);  // docs/exit-codes.md: the job failed
  CHECK(absl::StrContains(result.err, "out of memory"));
  CHECK(absl::StrContains(result.err, "560.0 MiB"));

  JobLog log(node, "j1");
  const Json event = log.AwaitEvent("out of memory");
  CHECK(event["node"] == node.id());
  CHECK(event["severity"] == "error");
  CHECK(absl::StrContains(event["text"].get<std::string>(), "560.0 MiB"));
  const std::string reason = log.AwaitEnd()["reason"];
  INFO(reason);
  CHECK(absl::StrContains(reason, "out of memory"));
  // The node and its daemon are as they were.
  CHECK(node.pid() == daemon);
  CHECK(node.Workers().empty());
  const std::string next = cluster.Submit(
      node, {.rounds = 2, .set = {"data.tokenizer=char", "train.batch_size=1"}});
  CHECK(JobLog(node, next).AwaitEnd()["phase"] == "succeeded");
}

TEST_CASE("a worker that hangs is left behind when the round's deadline has passed") {
  Cluster cluster(3);
  const std::string job = cluster.Submit(
      cluster.node(0), {.rounds = kRounds, .nodes_min = 2, .set = {"rounds.round_deadline=5s"}});
  JobLog log(cluster.node(0), job);
  log.AwaitRound(3);
  Node& node = MemberThatFollows(cluster, job);
  const pid_t worker = WorkerOf(node);
  kill(worker, SIGSTOP);
  log.AwaitEvent("lost node");
  log.AwaitEvent("with 2 nodes");
  CHECK(log.AwaitEnd()["phase"] == "succeeded");
  CHECK(AwaitEnd(worker));  // it was ended although it could not answer
  node.Ask({"status"});
}

}  // namespace gdf::cluster
