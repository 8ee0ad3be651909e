// What people do to a network while a job runs: cancel, ban, leave, restart, follow the log.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/rng.h"
#include "core/store/sqlite.h"
#include "core/trust/node_key.h"
#include "tests/integration/cluster/cluster.h"

namespace gdf::cluster {
namespace {

constexpr int kRounds = 60;
constexpr int kMany = 100000;

}  // namespace

TEST_CASE("a cancelled job ends on every node at once") {
  Cluster cluster(3);
  const std::string job = cluster.Submit(cluster.node(0), {.rounds = kMany, .nodes_min = 3});
  JobLog log(cluster.node(1), job);
  log.AwaitRound(2);
  std::vector<pid_t> workers;
  for (int i = 0; i < 3; ++i) {
    for (const pid_t worker : cluster.node(i).Workers()) workers.push_back(worker);
  }
  REQUIRE(workers.size() == 3);
  CHECK(cluster.node(0).Ctl({"job", "cancel", job}).code == 0);
  const Json end = log.AwaitEnd();
  CHECK(end["phase"] == "cancelled");
  for (const pid_t worker : workers) CHECK(AwaitEnd(worker));
  for (int i = 0; i < 3; ++i) CHECK(cluster.node(i).AwaitNoMemfds());
}

// Members commit many rounds for each one that is reported: nearly always they are ahead of the record.
TEST_CASE("a node that took no part exports and samples what a cancelled job had reached") {
  Cluster cluster(3);
  Node& asked = cluster.node(0);
  for (int i = 0; i < 3; ++i) {
    const std::string job = cluster.Submit(
        asked, {.rounds = kMany, .inner_steps = 1, .nodes_min = 2, .nodes_max = 2,
                .set = {"nodes.where=[node1, node2]", "rounds.validate_batches=0"}});
    JobLog log(asked, job);
    log.AwaitRound(2);
    CHECK(asked.Ctl({"job", "cancel", job}).code == 0);
    CHECK(log.AwaitEnd()["phase"] == "cancelled");
    const CtlResult exported = asked.Ctl({"job", "export", job, cluster.folder() + "/" + job});
    INFO(exported.err);
    CHECK(exported.code == 0);
    if (i > 0) continue;
    CHECK(asked.Ask({"generate", job, "--prompt", "the ", "--max-tokens", "4"})["tokens"] == 4);
  }
}

TEST_CASE("a finished job's result is still given by nodes that have replaced their keys since") {
  Cluster cluster(3);
  Node& asked = cluster.node(0);
  const std::string job = cluster.Submit(
      asked, {.rounds = 2, .nodes_min = 2, .nodes_max = 2, .set = {"nodes.where=[node1, node2]"}});
  const Json end = JobLog(asked, job).AwaitEnd();
  REQUIRE(end["phase"] == "succeeded");
  for (const int rotates : {1, 2, 1, 0}) {
    const Json before = cluster.node(rotates).Ask({"status"});
    const std::string id = cluster.node(rotates).Ask({"key", "rotate"})["node_id"];
    CHECK(id != before["node_id"]);
    cluster.node(rotates).AwaitStatus([&](const Json& status) {
      return status["node_id"] == id && status["coordinator_connected"] == true;
    });
  }
  // The coordinator began anew too: with port 0, at the port that the others know.
  asked.AwaitStatus([](const Json& status) { return status["members_online"] == 3; });
  const Json after = asked.Ask({"job", "show", job})["job"];
  for (const char* names : {"member_names", "lead_name", "submitter_name"}) {
    CHECK(after[names] == end[names]);
  }
  for (int i = 0; i < 3; ++i) {
    const std::string folder = absl::StrCat(cluster.folder(), "/export-", i);
    const CtlResult exported = cluster.node(i).Ctl({"job", "export", job, folder});
    INFO(i << ": " << exported.err);
    CHECK(exported.code == 0);
  }
  CHECK(asked.Ask({"generate", job, "--prompt", "the ", "--max-tokens", "4"})["tokens"] == 4);
}

TEST_CASE("a banned member is out of its job at once, and the job goes on") {
  Cluster cluster(3);
  const std::string job = cluster.Submit(cluster.node(0), {.rounds = kRounds, .nodes_min = 2});
  JobLog log(cluster.node(0), job);
  log.AwaitRound(2);
  const Node& banned = cluster.node(2);
  const std::vector<pid_t> workers = banned.Workers();
  CHECK(cluster.node(0).Ctl({"node", "ban", banned.name()}).code == 0);
  const Json end = log.AwaitEnd();
  CHECK(end["phase"] == "succeeded");
  CHECK(end["members"].size() == 2);
  for (const Json& member : end["members"]) CHECK(member != banned.id());
  for (const pid_t worker : workers) CHECK(AwaitEnd(worker));
  CHECK(absl::StrContains(
      banned.AwaitStatus([](const Json& status) { return !status["warnings"].empty(); })["warnings"]
          .dump(),
      "banned"));
  // Nothing of the network is served to it any more.
  CHECK(banned.Ctl({"job", "cancel", job}).code == 2);
}

TEST_CASE("a node whose key is gone, or whose folder others may change, does not start") {
  Cluster cluster(1);
  Node& node = cluster.node(0);
  const std::string id = node.id();
  CHECK(node.Kill(SIGTERM) == 0);
  namespace fs = std::filesystem;
  const fs::path folder = node.state_folder();
  fs::permissions(folder, fs::perms::all);
  const CtlResult loose = node.StartInVain();
  CHECK(loose.code == 5);
  CHECK(absl::StrContains(loose.err, "has mode 0777, which lets others change it. Run: chmod 700"));
  fs::permissions(folder, fs::perms::owner_all);
  fs::rename(folder / "node.key", folder / "elsewhere");
  const CtlResult keyless = node.StartInVain();
  CHECK(keyless.code == 5);
  CHECK(absl::StrContains(keyless.err, "node.key is gone"));
  CHECK_FALSE(fs::exists(folder / "node.key"));
  fs::rename(folder / "elsewhere", folder / "node.key");
  node.Start();
  CHECK(node.id() == id);
}

TEST_CASE("a node whose record is damaged does not start, and says how to go on") {
  Cluster cluster(1);
  Node& node = cluster.node(0);
  const std::string id = node.id();
  CHECK(node.Kill(SIGTERM) == 0);
  namespace fs = std::filesystem;
  const fs::path file = fs::path(node.state_folder()) / "state.db";
  REQUIRE((*store::Database::Open(file.string()))->Execute("UPDATE local SET keeper = x'01'").ok());
  const CtlResult edited = node.StartInVain();
  CHECK(edited.code == 5);
  CHECK(absl::StrContains(edited.err, file.string() + ", table local, column keeper: "));
  fs::resize_file(file, fs::file_size(file) / 2);
  const CtlResult damaged = node.StartInVain();
  CHECK(damaged.code == 5);
  CHECK(absl::StrContains(damaged.err, file.string()));
  CHECK(absl::StrContains(damaged.err, "gdfd --restore"));
  const fs::path folder = file.parent_path();
  CHECK(absl::StrContains(damaged.err, "touch " + (folder / "leave").string()));
  std::ofstream(folder / "leave").close();
  node.Start();
  CHECK(node.Ask({"status"})["node_id"] == id);
  CHECK_FALSE(fs::exists(folder / "leave"));
}

TEST_CASE("a node whose record is gone, emptied or open to others does not start as one in no network") {
  Cluster cluster(1);
  Node& node = cluster.node(0);
  const std::string id = node.id();
  CHECK(node.Kill(SIGTERM) == 0);
  namespace fs = std::filesystem;
  const fs::path folder = node.state_folder(), file = folder / "state.db", aside = folder / "aside";
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write | fs::perms::others_write);
  CHECK(absl::StrContains(node.StartInVain().err, "state.db has mode 0602, which lets others at it. Run: chmod 600"));
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
  fs::rename(file, aside);
  CHECK(absl::StrContains(node.StartInVain().err, file.string() + " is gone"));
  CHECK_FALSE(fs::exists(file));
  std::ofstream(file).close();
  CHECK(absl::StrContains(node.StartInVain().err, file.string() + " is empty"));
  fs::rename(folder / "node.key", folder / "node.key.aside");
  fs::remove(file);
  fs::create_directories(folder / "jobs" / "j1");
  const CtlResult jobs_left = node.StartInVain();
  CHECK(jobs_left.code == 5);
  CHECK(absl::StrContains(jobs_left.err, "jobs has a network's jobs"));
  fs::rename(aside, file);
  fs::rename(folder / "node.key.aside", folder / "node.key");
  node.Start();
  CHECK(node.Ask({"status"})["node_id"] == id);
}

TEST_CASE("gdfd ends with the codes that docs/exit-codes.md lists") {
  Cluster cluster(1);
  const Node& node = cluster.node(0);
  CHECK(node.Gdfd({"--version"}).code == 0);
  CHECK(node.Gdfd({"--no-such-option"}).code == 4);
  CHECK(node.Gdfd({"--listen", "nowhere"}).code == 4);
  CHECK(node.Gdfd({"--state-dir", "/dev/null/here"}).code == 5);
  const CtlResult help = node.Gdfd({"--help"});
  CHECK(help.code == 0);
  CHECK(absl::StrContains(help.out, "Exit codes: 0"));
  const CtlResult full = node.Shell("$GDFD --help > /dev/full");
  CHECK(full.code == 5);
  CHECK(absl::StrContains(full.err, "standard output did not take all data"));
  const CtlResult worker = node.Shell("$WORKER");
  CHECK(worker.code == 4);
  CHECK(worker.err == "gdf-worker: it is started by gdfd, not by hand; see gdf-worker --help\n");
}

TEST_CASE("who watches the status through a pipe ends with the pipe's reader, not with the next change") {
  Cluster cluster(1);
  const CtlResult watched =
      cluster.node(0).Shell("timeout 30 $GDFCTL status -w | head -1; echo ${PIPESTATUS[0]}");
  CHECK(absl::StrContains(watched.out, "node"));
  CHECK(watched.out.ends_with("\n141\n"));  // 128 + SIGPIPE; 124: had to be ended
}

TEST_CASE("a node whose key the record does not know does not start, and names both; an unfinished write goes") {
  Cluster cluster(1);
  Node& node = cluster.node(0);
  const std::string id = node.id();
  CHECK(node.Kill(SIGTERM) == 0);
  namespace fs = std::filesystem;
  const fs::path folder = node.state_folder(), key = folder / "node.key", aside = folder / "aside",
                 unfinished = folder / "next.key.tmp-12-3";
  fs::rename(key, aside);
  SeededRng rng(5);
  PosixFileSystem files;
  const trust::NodeKey stranger = trust::NodeKey::Generate(rng);
  REQUIRE(stranger.Save(files, key).ok());
  const CtlResult refused = node.StartInVain();
  INFO(refused.err);
  CHECK(refused.code == 5);
  CHECK(absl::StrContains(refused.err, "node.key is of node " + stranger.id().Short()));
  CHECK(absl::StrContains(refused.err, "state.db was kept by node " + id.substr(0, 10)));
  fs::rename(aside, key);
  std::ofstream(unfinished).close();
  node.Start();
  CHECK(node.id() == id);
  CHECK_FALSE(fs::exists(unfinished));
}

TEST_CASE("a daemon that is told to stop while it begins anew stops") {
  Cluster cluster(2);
  Node& node = cluster.node(1);
  // Waits for a third node; its log is a call that is in progress.
  const std::string job = cluster.Submit(cluster.node(0), {.rounds = 1, .nodes_min = 3, .nodes_max = 3});
  JobLog log(node, job);
  log.AwaitEvent("submitted");
  CHECK(node.Ctl({"key", "rotate"}).code == 0);
  CHECK(node.Kill(SIGTERM) == 0);
}

TEST_CASE("the log is followed across a restart of the daemon and ends with the job") {
  Cluster cluster(2);
  Node& followed = cluster.node(0);
  const std::string job = cluster.Submit(followed, {.rounds = 30, .nodes_min = 2});
  JobLog log(followed, job);
  log.AwaitRound(2);
  followed.Restart(GENERATE(SIGTERM, SIGKILL));
  const Json end = log.AwaitEnd();
  CHECK(end["phase"] == "succeeded");
  REQUIRE(log.rounds().size() == 30);
  for (size_t i = 0; i < 30; ++i) CHECK(log.rounds()[i]["round"] == i);
  std::set<uint64_t> events;
  for (const Json& event : log.events())
    CHECK(events.insert(event["id"].get<uint64_t>()).second);  // none twice
}

}  // namespace gdf::cluster
