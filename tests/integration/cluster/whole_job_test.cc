// One job on four nodes, from the submission to the exported weights.
#include <signal.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "tests/integration/cluster/cluster.h"

namespace gdf::cluster {
namespace {

TEST_CASE("four nodes train one model from the submission to the export") {
  Cluster cluster(4);
  std::vector<std::string> submit =
      cluster.JobArguments({.rounds = 4, .nodes_min = 4, .arguments = {"--wait"}});
  submit.insert(submit.begin(), {"--json", "submit"});
  const CtlResult done = cluster.node(0).Ctl(submit);
  INFO(done.out << done.err);
  REQUIRE(done.code == 0);
  const Json job = done.json()["job"];
  CHECK(job["phase"] == "succeeded");
  CHECK(job["members"].size() == 4);
  CHECK(job["rounds_done"] == 4);
  CHECK(job["rounds_total"] == 4);
  const std::string id = job["id"];

  const Json shown = cluster.node(1).Ask({"job", "show", id});
  REQUIRE(shown["rounds"].size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    const Json& round = shown["rounds"][i];
    INFO(round.dump());
    CHECK(round["round"] == i);
    CHECK(round["members"] == 4);
    CHECK(round["tokens"] == 4 * 5 * 4 * 16);  // nodes, steps, sequences, tokens
    CHECK(round["loss"] > 0.0);
    CHECK(round["loss"] < std::log(256.0) + 1);
    CHECK(round["tokens_per_sec"] > 0.0);
    CHECK(round["bytes_sent"] > 0);
    CHECK(round["bytes_received"] > 0);
    CHECK(round["compute_seconds"] > 0.0);
    CHECK(round["exchange_seconds"] > 0.0);
    CHECK(round["digest"].get<std::string>().size() == 64);
  }
  CHECK(shown["rounds"][3]["validation_loss"] < shown["rounds"][0]["validation_loss"]);
}

}  // namespace
}  // namespace gdf::cluster
