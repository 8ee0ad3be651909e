// A node with a GPU that is none: its gdf-worker is a script that lists one, will not start on it,
// and is the real program in everything else.
#include <signal.h>
#include <sys/stat.h>

#include <fstream>

#include "absl/strings/match.h"
#include "tests/integration/cluster/cluster.h"

namespace gdf::cluster {
namespace {

constexpr char kLook[] = "limits: {gpus: always}\n";
constexpr uint64_t kGpuBytes = uint64_t{16} << 30;

// Does `listing` where it is to list devices.
std::string FakeWorker(const Cluster& cluster, const std::string& listing) {
  const std::string path = cluster.folder() + "/gdf-worker";
  std::ofstream(path) << "#!/bin/sh\ncase \"$*\" in\n--list-devices) " << listing
                      << " ;;\n*--gpu*) echo 'the device is on fire' >&2; exit 1 ;;\n*) exec "
                      << GDF_WORKER_PROGRAM << " \"$@\" ;;\nesac\n";
  REQUIRE(chmod(path.c_str(), 0755) == 0);
  return path;
}

std::string List(const std::string& name, const std::string& problem) {
  const Json list = {{"devices", Json::array({{{"index", 0},
                                               {"name", name},
                                               {"compute_capability", "9.0"},
                                               {"memory_bytes", kGpuBytes}}})},
                     {"problem", problem}};
  return "echo '" + list.dump() + "'";
}

bool Warns(const Json& status, const std::string& text) {
  for (const Json& warning : status["warnings"]) {
    if (absl::StrContains(warning.get<std::string>(), text)) return true;
  }
  return false;
}

// What `teller` knows of another's GPUs, asked until there is one or the deadline has passed.
Json GpusOf(const Node& teller, const Node& other) {
  const absl::Duration until = MonotonicNow() + kDeadline;
  while (true) {
    Json gpus = teller.Ask({"node", "show", other.name()})["node"]["gpus"];
    if (!gpus.empty() || MonotonicNow() > until) return gpus;
  }
}

}  // namespace

TEST_CASE("gdf-worker lists the devices of this machine, or says why there is none") {
  Process::Options options;
  options.arguments = {GDF_WORKER_PROGRAM, "--list-devices"};
  options.error_file = "/dev/null";
  Process worker(options);
  const Json list = Json::parse(worker.ReadAll(kDeadline));
  CHECK(worker.Wait() == 0);
  INFO(list.dump());
  REQUIRE(list["devices"].is_array());
  REQUIRE(list["problem"].is_string());
  CHECK((!list["devices"].empty() || !list["problem"].get<std::string>().empty()));
}

TEST_CASE("a node's GPUs are in its status and known to the others; what is wrong is a warning") {
  Cluster cluster(1);
  Node& node = cluster.AddNode(kLook, "", FakeWorker(cluster, List("Fake A1", "Fake B2 is old")));
  node.Start();
  cluster.Join(node);
  const Json status = node.AwaitStatus([](const Json& s) { return !s["gpus"].empty(); });
  CHECK(status["gpus"] == Json::array({{{"name", "Fake A1"}, {"memory_bytes", kGpuBytes}}}));
  CHECK(Warns(status, "GPU: Fake B2 is old"));
  CHECK(GpusOf(cluster.node(0), node) == status["gpus"]);
  // Known from the record until they have been listed again.
  FakeWorker(cluster, "exec sleep 1000");
  node.Restart(SIGTERM);
  CHECK(node.Ask({"status"})["gpus"] == status["gpus"]);
  CHECK(GpusOf(cluster.node(0), node) == status["gpus"]);
}

TEST_CASE("a listing that hangs holds nothing up") {
  Cluster cluster(1);
  Node& node = cluster.AddNode(kLook, "", FakeWorker(cluster, "exec sleep 1000"));
  node.Start();
  cluster.Join(node);
  const Json status = node.Ask({"status"});
  CHECK(status["gpus"].empty());
  CHECK_FALSE(Warns(status, "GPU"));
  CHECK_FALSE(absl::StrContains(node.Log(), "event=gpus"));
  CHECK(node.Kill(SIGTERM) == 0);
  cluster.AwaitNoOrphans();
}

TEST_CASE("a worker that cannot list is a warning, and no more") {
  Cluster cluster(1);
  Node& node = cluster.AddNode(kLook, "", FakeWorker(cluster, "yes"));
  node.Start();
  const Json status = node.AwaitStatus([](const Json& s) { return Warns(s, "GPU: "); });
  CHECK(Warns(status, "GPU: GPUs cannot be listed: "));
  CHECK(status["gpus"].empty());
}

TEST_CASE("a GPU that cannot be used is left for the CPU where the job leaves it to the node") {
  Cluster cluster(1);
  Node& node = cluster.AddNode(kLook, "", FakeWorker(cluster, List("Fake A1", "")));
  node.Start();
  cluster.Join(node);
  REQUIRE(GpusOf(cluster.node(0), node).size() == 1);

  SECTION("device: auto") {
    const std::string job = cluster.Submit(cluster.node(0), {.rounds = 4, .nodes_min = 2});
    JobLog log(cluster.node(0), job);
    const Json event = log.AwaitEvent("computes on the CPU");
    CHECK(event["node"] == node.id());
    CHECK(event["severity"] == "warning");
    CHECK_THAT(event["text"].get<std::string>(),
               Catch::Contains("since Fake A1 cannot be used") &&
                   Catch::Contains("the device is on fire"));
    const Json end = log.AwaitEnd();
    INFO(log.Text());
    CHECK(end["phase"] == "succeeded");
    CHECK(end["members"].size() == 2);
  }
  SECTION("device: gpu") {
    const std::string job = cluster.Submit(
        cluster.node(0), {.rounds = 4, .nodes_max = 1, .set = {"nodes.device=gpu"}});
    JobLog log(cluster.node(0), job);
    const Json end = log.AwaitEnd();
    INFO(log.Text());
    CHECK(end["phase"] == "failed");
    CHECK(log.HasEvent("the device is on fire"));
    CHECK(end["members"] == Json::array({node.id()}));
  }
}

}  // namespace gdf::cluster
