// Checkpoints that a job keeps: listed, checked, mended, exported, and gone back to.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/cluster/cluster.h"

namespace gdf::cluster {
namespace {

constexpr int kRounds = 60;

JobOptions Kept(int nodes) {
  JobOptions options{.rounds = kRounds, .nodes_min = nodes, .nodes_max = nodes};
  options.set = {"checkpoints.every=5", "checkpoints.keep=20", "rounds.codec=int8"};
  return options;
}

Json Checkpoints(const Node& node, const std::string& job) { return node.Ask({"checkpoint", "list", job})["checkpoints"]; }

std::string FinalDigest(const Json& job) { return job["last_round"]["digest"]; }

// Changes a byte of each chunk file of the node that is at least as large.
int DamageChunks(const Node& node, uint64_t size) {
  int damaged = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(node.state_folder() + "/chunks")) {
    if (!entry.is_regular_file() || absl::StrContains(entry.path().string(), "/pins/") || entry.file_size() < size) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(100);
    const char old = static_cast<char>(file.get());
    file.seekp(100);
    file.put(static_cast<char>(old ^ 1));
    ++damaged;
  }
  return damaged;
}

std::string Bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("a job that goes back to a checkpoint ends as one that never left it, bit for bit; what is damaged is mended") {
  Cluster cluster(3);
  const std::string undisturbed = cluster.Submit(cluster.node(0), Kept(3));
  JobLog first(cluster.node(0), undisturbed);
  const Json straight = first.AwaitEnd();
  REQUIRE(straight["phase"] == "succeeded");

  const std::string id = cluster.Submit(cluster.node(0), Kept(3));
  JobLog log(cluster.node(0), id);
  log.AwaitRound(22);
  const Json kept = Checkpoints(cluster.node(1), id);
  // A node whose disk is slow leaves some out.
  const auto found = std::find_if(kept.begin(), kept.end(), [](const Json& c) { return c["copies"].size() == 3; });
  REQUIRE(found != kept.end());
  const uint64_t target = (*found)["round"];
  for (const Json& copy : (*found)["copies"]) {
    CHECK(copy["inner_state"] == true);
    CHECK(copy["parameters"] == true);
  }
  CHECK((*found)["wanted"] == 3);
  const CtlResult rolled =
      cluster.node(0).Ctl({"checkpoint", "rollback", id, "--to", absl::StrCat(target), "--reason", "a test"});
  INFO(rolled.err);
  REQUIRE(rolled.code == 0);
  log.AwaitEvent(absl::StrCat("to ", target, ": a test"));
  log.AwaitEvent(absl::StrCat("goes on from the checkpoint of round ", target));
  const Json job = log.AwaitEnd();
  INFO(log.Text());
  REQUIRE(job["phase"] == "succeeded");
  CHECK_FALSE(log.HasEvent("inner optimiser state"));
  CHECK(FinalDigest(job) == FinalDigest(straight));

  // After the end, on a node whose chunks of parameters are all damaged.
  const Json ended = Checkpoints(cluster.node(2), id);
  REQUIRE(ended.size() >= 2);
  CHECK(ended.back()["digest"] == FinalDigest(job));
  const uint64_t middle = ended[ended.size() / 2]["round"];
  const std::string round = absl::StrCat(middle);
  Json whole;  // asked until the node has given up what the job's end makes useless
  for (int asked = 0; asked == 0 || (asked < 1000 && whole["outer_state"] == true); ++asked) {
    whole = cluster.node(2).Ask({"checkpoint", "verify", id, round});
  }
  REQUIRE(whole["outer_state"] == false);
  CHECK(whole["whole"] == true);
  CHECK(whole["repaired"].empty());
  REQUIRE(DamageChunks(cluster.node(2), 10'000) > 0);
  const Json mended = cluster.node(2).Ask({"checkpoint", "verify", id, round});
  CHECK(mended["whole"] == true);
  CHECK_FALSE(mended["repaired"].empty());
  CHECK(cluster.node(2).Ask({"checkpoint", "verify", id, round})["repaired"].empty());

  std::string weights;
  for (int i = 0; i < 3; ++i) {
    const std::string folder = cluster.folder() + "/checkpoint-" + cluster.node(i).name();
    CHECK(cluster.node(i).Ask({"checkpoint", "export", id, round, folder})["rounds"] == middle);
    const std::string here = Bytes(folder + "/model.safetensors");
    REQUIRE_FALSE(here.empty());
    if (i == 0) weights = here;
    CHECK((here == weights));
  }
}

TEST_CASE("a node that is killed has its checkpoints when it starts again") {
  Cluster cluster(2);
  const std::string id = cluster.Submit(cluster.node(0), Kept(2));
  JobLog log(cluster.node(0), id);
  log.AwaitRound(15);
  cluster.node(1).Restart(SIGKILL);
  const Json job = log.AwaitEnd();
  INFO(log.Text());
  REQUIRE(job["phase"] == "succeeded");
  for (const Json& checkpoint : Checkpoints(cluster.node(1), id)) {
    const std::string round = absl::StrCat(checkpoint["round"].get<uint64_t>());
    for (const Json& copy : checkpoint["copies"]) {
      if (copy["node_name"] != cluster.node(1).name()) continue;
      INFO(round);
      CHECK(cluster.node(1).Ask({"checkpoint", "verify", id, round})["whole"] == true);
    }
  }
}

}  // namespace gdf::cluster
