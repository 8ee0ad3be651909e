// The coordinator's disk is lost: its backup brings the network back (docs/cli.md).
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/cluster/cluster.h"

namespace gdf::cluster {
namespace {

constexpr char kPassphrase[] = "correct horse battery";

uint64_t LogIndex(const Node& node) { return node.Ask({"status"})["log_index"]; }

// Waits until every node has the coordinator's whole log.
void AwaitSameLog(Cluster& cluster) {
  for (size_t i = 1; i < cluster.size(); ++i) {
    Node& node = cluster.node(static_cast<int>(i));
    node.AwaitStatus([&](const Json& status) {
      return status["log_index"].get<uint64_t>() >= LogIndex(cluster.node(0));
    });
  }
}

// What lasts of the lists: not who is online, or how much has passed between whom.
Json Lasting(const Node& node) {
  Json nodes = node.Ask({"node", "list"})["nodes"];
  for (Json& one : nodes) {
    for (const char* passing : {"online", "rtt_seconds", "bytes_sent", "bytes_received"}) {
      one.erase(passing);
    }
  }
  return {{"nodes", nodes}, {"jobs", node.Ask({"job", "list"})["jobs"]}};
}

void AwaitAllOnline(const Node& node, size_t nodes) {
  node.AwaitStatus([nodes](const Json& status) { return status["members_online"] == nodes; });
}

// Writes the coordinator's backup; gives its path.
std::string Backup(const Cluster& cluster, const Node& node) {
  const std::string passphrase_file = cluster.folder() + "/passphrase";
  std::ofstream(passphrase_file) << kPassphrase << "\n";
  const std::string archive = cluster.folder() + "/backup";
  node.Ask({"backup", archive, "--passphrase-file", passphrase_file});
  return archive;
}

void LoseDisk(Node& node) {
  node.Kill(SIGKILL);
  std::filesystem::remove_all(node.state_folder());
}

}  // namespace

TEST_CASE("a coordinator that lost its disk is restored, and its members come back") {
  Cluster cluster(3);
  Node& coordinator = cluster.node(0);
  const std::string job = cluster.Submit(coordinator, {.rounds = 3, .nodes_min = 3});
  REQUIRE(JobLog(coordinator, job).AwaitEnd()["phase"] == "succeeded");
  AwaitSameLog(cluster);
  const Json before = Lasting(coordinator);
  const std::string id = coordinator.id();
  const uint64_t index = LogIndex(coordinator);
  const std::string archive = Backup(cluster, coordinator);
  REQUIRE(LogIndex(coordinator) == index);
  LoseDisk(coordinator);

  const CtlResult wrong = coordinator.Restore(archive, "wrong horse battery");
  CHECK(wrong.code == 5);
  CHECK(absl::StrContains(wrong.err, "wrong passphrase"));
  const CtlResult restored = coordinator.Restore(archive, kPassphrase);
  INFO(restored.out << restored.err);
  REQUIRE(restored.code == 0);
  CHECK(absl::StrContains(restored.out, absl::StrCat("network test up to log entry ", index)));
  const CtlResult twice = coordinator.Restore(archive, kPassphrase);
  CHECK(twice.code == 5);
  CHECK(absl::StrContains(twice.err, "exists"));

  coordinator.Start();
  CHECK(coordinator.id() == id);
  AwaitAllOnline(coordinator, 3);
  CHECK(Lasting(coordinator) == before);
  for (int i = 1; i < 3; ++i) CHECK(Lasting(cluster.node(i)) == before);
  // The network goes on: the old result comes from the members, a new job takes all three.
  CHECK(coordinator.Ctl({"job", "export", job, cluster.folder() + "/export"}).code == 0);
  const std::string next = cluster.Submit(coordinator, {.rounds = 3, .nodes_min = 3});
  CHECK(JobLog(coordinator, next).AwaitEnd()["phase"] == "succeeded");
}

TEST_CASE("members who know more than a restored coordinator say so, and join again") {
  Cluster cluster(2);
  Node& coordinator = cluster.node(0);
  Node& member = cluster.node(1);
  const std::string archive = Backup(cluster, coordinator);
  const std::string job = cluster.Submit(coordinator, {.rounds = 1});  // is in no backup
  REQUIRE(JobLog(coordinator, job).AwaitEnd()["phase"] == "succeeded");
  AwaitSameLog(cluster);
  LoseDisk(coordinator);
  REQUIRE(coordinator.Restore(archive, kPassphrase).code == 0);
  coordinator.Start();
  member.AwaitStatus([](const Json& status) {
    return absl::StrContains(status["warnings"].dump(), "rolled back");
  });
  const Json warnings = coordinator.Ask({"status"})["warnings"];
  INFO(warnings);
  CHECK(absl::StrContains(warnings.dump(),
                          absl::StrCat(member.name(), " knows ", LogIndex(member), " entries")));
  CHECK(absl::StrContains(warnings.dump(), "restored from an older backup"));
  CHECK(member.Ctl({"leave", "--yes"}).code == 0);
  CHECK(member.Ask({"status"})["network_id"] == "");
  for (const Json& node : coordinator.Ask({"node", "list"})["nodes"]) {
    CHECK(node["state"] == (node["coordinator"] == true ? "active" : "removed"));
  }
  cluster.Join(member);
  AwaitAllOnline(coordinator, 2);
  CHECK_FALSE(absl::StrContains(coordinator.Ask({"status"})["warnings"].dump(), " knows "));
  const std::string next = cluster.Submit(coordinator, {.rounds = 3, .nodes_min = 2});
  CHECK(JobLog(coordinator, next).AwaitEnd()["phase"] == "succeeded");
}

}  // namespace gdf::cluster
