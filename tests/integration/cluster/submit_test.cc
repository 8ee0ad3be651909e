// What a user meets on the way to a job: verdicts, exit codes (docs/exit-codes.md), refusals.
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "tests/integration/cluster/cluster.h"

namespace gdf::cluster {
namespace {

constexpr int kMany = 100000;  // rounds of a job that does not end by itself

std::vector<std::string> SubmitArguments(const Cluster& cluster, const JobOptions& options) {
  std::vector<std::string> arguments = cluster.JobArguments(options);
  arguments.insert(arguments.begin(), "submit");
  return arguments;
}

void WriteFile(const std::string& path, const std::string& text) { std::ofstream(path) << text; }

}  // namespace

TEST_CASE("each exit code of gdfctl means what docs/exit-codes.md says") {
  Cluster cluster(1);
  Node& node = cluster.node(0);

  SECTION("0 and 1: the job's verdict") {
    const CtlResult good =
        node.Ctl(SubmitArguments(cluster, {.rounds = 1, .arguments = {"--wait"}}));
    INFO(good.out << good.err);
    CHECK(good.code == 0);
    // A step multiplies each weight by 1 - 1000 * 10: after ten the largest float32 is passed.
    const CtlResult bad = node.Ctl(SubmitArguments(
        cluster, {.rounds = 4,
                  .set = {"train.optimizer.lr=1000", "train.optimizer.weight_decay=10"},
                  .arguments = {"--wait"}}));
    INFO(bad.out << bad.err);
    CHECK(bad.code == 1);
    CHECK(absl::StrContains(bad.err, "diverged"));
    CHECK(absl::StrContains(node.Ask({"job", "show", "j2"})["job"]["reason"].get<std::string>(),
                            "diverged"));
  }
  SECTION("3, 7 and 4: too long, cancelled, and a job that is over") {
    const std::string job = cluster.Submit(node, {.rounds = kMany});
    JobLog log(node, job);
    log.AwaitRound(0);
    const CtlResult late = node.Ctl({"job", "wait", job, "--timeout", "100ms"});
    CHECK(late.code == 3);
    CHECK(absl::StrContains(late.err, job));
    CHECK(node.Ctl({"job", "cancel", job}).code == 0);
    CHECK(log.AwaitEnd()["phase"] == "cancelled");
    CHECK(node.Ctl({"job", "wait", job}).code == 7);
    const CtlResult again = node.Ctl({"job", "cancel", job});
    CHECK(again.code == 4);
    CHECK(absl::StrContains(again.err, job));
  }
  SECTION("6: no node will ever do") {
    const CtlResult result = node.Ctl(SubmitArguments(cluster, {.set = {"nodes.memory=1PiB"}}));
    CHECK(result.code == 6);
    CHECK(absl::StrContains(result.err, "1.0 PiB"));
    std::vector<std::string> plan = cluster.JobArguments({.set = {"nodes.memory=1PiB"}});
    plan.insert(plan.begin(), "plan");
    CHECK(node.Ctl(plan).code == 6);
    CHECK(node.Ask({"job", "list"})["jobs"].empty());
  }
  SECTION("5: what is on the disk is not what was put there") {
    const std::string job = cluster.Submit(node, {.rounds = 1});
    JobLog(node, job).AwaitEnd();
    WriteFile(node.state_folder() + "/jobs/" + job + "/artifacts", "many");
    const CtlResult result = node.Ctl({"job", "export", job, cluster.folder() + "/export"});
    CHECK(result.code == 5);
    CHECK(absl::StrContains(result.err, "/jobs/" + job + "/artifacts"));
  }
  SECTION("2: no daemon") {
    node.Kill(SIGTERM);
    const CtlResult result = node.Ctl({"status"});
    CHECK(result.code == 2);
    CHECK(absl::StrContains(result.err, "control.sock"));
  }
}

TEST_CASE("only those with the role may submit, and only operators may change things") {
  Cluster cluster(2);
  Node& member = cluster.node(1);
  const CtlResult refused = member.Ctl(SubmitArguments(cluster, {.rounds = 1, .nodes_max = 1}));
  INFO(refused.err);
  CHECK(refused.code == 2);
  CHECK(absl::StrContains(refused.err, "submitter"));
  CHECK(member.Ctl({"invite"}).code == 2);
  CHECK(member.Ctl({"node", "ban", "node0"}).code == 2);
  CHECK(cluster.node(0).Ask({"job", "list"})["jobs"].empty());

  CHECK(cluster.node(0).Ctl({"node", "role", "node1", "submitter"}).code == 0);
  member.AwaitStatus([](const Json& status) { return status["roles"] == "submitter"; });
  const CtlResult done =
      member.Ctl(SubmitArguments(cluster, {.rounds = 1, .nodes_max = 1, .arguments = {"--wait"}}));
  INFO(done.err);
  CHECK(done.code == 0);
  // Its job ran on the node that contributes, and its result is there for it.
  const Json job = member.Ask({"job", "show", "j1"})["job"];
  REQUIRE(job["members"].size() == 1);
  CHECK(job["members"][0] == cluster.node(0).id());
  CHECK(member.Ask({"job", "export", "j1", cluster.folder() + "/export"})["files"].size() >= 2);
  CHECK(std::filesystem::exists(cluster.folder() + "/export/model.safetensors"));
}

TEST_CASE("a submission is made once however often it is sent, and needs its submitter no more") {
  Cluster cluster(2);
  Node& submitter = cluster.AddNode();
  submitter.Start();
  cluster.Join(submitter, "submitter");
  const JobOptions options{
      .rounds = 6, .nodes_min = 2, .nodes_max = 2, .arguments = {"--submit-token", "nightly-7"}};
  const Json first = submitter.Ask(SubmitArguments(cluster, options));
  const Json second = submitter.Ask(SubmitArguments(cluster, options));
  CHECK(first["existed"] == false);
  CHECK(second["existed"] == true);
  CHECK(first["job"] == second["job"]);
  const std::string job = first["job"];
  JobLog log(cluster.node(0), job);
  log.AwaitRound(0);
  submitter.Kill(SIGKILL);
  CHECK(log.AwaitEnd()["phase"] == "succeeded");

  submitter.Start();
  CHECK(submitter.Ask(SubmitArguments(cluster, options))["job"] == job);  // also after it
  submitter.AwaitStatus([](const Json& status) { return status["coordinator_connected"] == true; });
  CHECK(submitter.Ask({"job", "show", job})["job"]["phase"] == "succeeded");
  CHECK(submitter.Ask({"job", "list"})["jobs"].size() == 1);
}

TEST_CASE("a job.yaml or a dataset that cannot work is refused before anything is trained") {
  Cluster cluster(2);
  Node& node = cluster.node(0);

  SECTION("job.yaml names the place") {
    std::ofstream(cluster.job_file(), std::ios::app) << "learnig_rate: 3\n";
    const CtlResult result = node.Ctl({"submit", cluster.job_file()});
    CHECK(result.code == 4);
    CHECK(absl::StrContains(result.err, "job.yaml:17:1"));
    CHECK(absl::StrContains(result.err, "learnig_rate"));
  }
  SECTION("a value out of its range") {
    const CtlResult result =
        node.Ctl(SubmitArguments(cluster, {.set = {"rounds.outer={momentum: 2}"}}));
    CHECK(result.code == 4);
    CHECK(absl::StrContains(result.err, "momentum"));
  }
  SECTION("a file that is not there") {
    const CtlResult result =
        node.Ctl({"submit", cluster.job_file(), "--text", cluster.folder() + "/none.txt"});
    CHECK(result.code == 4);
    CHECK(absl::StrContains(result.err, "none.txt"));
  }
  SECTION("an empty dataset") {
    WriteFile(cluster.text_file(), "");
    const CtlResult result = node.Ctl({"submit", cluster.job_file()});
    CHECK(result.code == 4);
    CHECK(absl::StrContains(result.err, "empty"));
  }
  SECTION("one that is shorter than a sequence") {
    WriteFile(cluster.text_file(), "sixteen byte txt");
    const CtlResult result = node.Ctl({"submit", cluster.job_file()});
    CHECK(result.code == 4);
    CHECK(absl::StrContains(result.err, "too short"));
  }
  SECTION("bytes that are no text") {
    WriteFile(cluster.text_file(), std::string(500, 'a') + "\xff" + std::string(500, 'a'));
    const CtlResult result = node.Ctl({"submit", cluster.job_file()});
    CHECK(result.code == 4);
    CHECK(absl::StrContains(result.err, "byte 500"));
  }
  SECTION("one whose training part is too short for the nodes, which only the worker can see") {
    WriteFile(cluster.text_file(), "eighteen bytes txt");  // 16 of them to train on
    const CtlResult result =
        node.Ctl(SubmitArguments(cluster, {.nodes_min = 2, .arguments = {"--wait"}}));
    INFO(result.err);
    CHECK(result.code == 1);
    CHECK(absl::StrContains(result.err, "the training part has 16 of"));
    CHECK(node.Ask({"job", "show", "j1"})["rounds"].empty());
    return;
  }
  CHECK(node.Ask({"job", "list"})["jobs"].empty());
}

}  // namespace gdf::cluster
