// The worker dies, runs out of memory or hangs: an event says so, gdfd lives, the job goes on or
// ends clearly.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>

#include "absl/strings/match.h"
#include "tests/integration/cluster/cluster.h"

namespace gdf::cluster {
namespace {

constexpr int kRounds = 60;
constexpr int kMany = 100000;

// The only worker of a node that takes part in a running job.
pid_t WorkerOf(const Node& node) {
  const std::vector<pid_t> workers = node.Workers();
  REQUIRE(workers.size() == 1);
  return workers[0];
}

// Lowers how much memory the process may have, as its own user, which needs no capability.
bool LimitMemory(pid_t pid, rlim_t bytes) {
  struct stat owner {};
  if (stat(("/proc/" + std::to_string(pid)).c_str(), &owner) != 0) return false;
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{bytes, bytes};
    const bool done = setresgid(owner.st_gid, owner.st_gid, owner.st_gid) == 0 &&
                      setresuid(owner.st_uid, owner.st_uid, owner.st_uid) == 0 &&
                      prlimit(pid, RLIMIT_DATA, &limit, nullptr) == 0;
    _exit(done ? 0 : 1);
  }
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
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

TEST_CASE("a worker that runs out of memory is told from one that crashes") {
  if (geteuid() != 0) {
    std::cerr << "skipped: needs root, to lower another user's limit" << std::endl;
    std::exit(77);
  }
  Cluster cluster(1);
  const std::string job = cluster.Submit(cluster.node(0), {.rounds = kMany});
  JobLog log(cluster.node(0), job);
  log.AwaitRound(3);
  // As if others had taken the machine's memory: nothing more for this process.
  REQUIRE(LimitMemory(WorkerOf(cluster.node(0)), 1 << 20));
  const Json event = log.AwaitEvent("memory");
  CHECK(event["node"] == cluster.node(0).id());
  INFO(event.dump());
  CHECK(cluster.node(0).Ctl({"job", "cancel", job}).code !=
        2);  // the daemon answers, whatever became of the job
  log.AwaitEnd();
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
  log.AwaitEvent("goes on without node");
  const Json end = log.AwaitEnd();
  CHECK(end["phase"] == "succeeded");
  CHECK(end["members"].size() == 2);
  CHECK(AwaitEnd(worker));  // it was ended although it could not answer
  node.Ask({"status"});
}

}  // namespace gdf::cluster
