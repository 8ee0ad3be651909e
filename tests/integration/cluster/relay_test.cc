// Members that others cannot dial, as behind a router that maps no port.
#include "tests/integration/cluster/cluster.h"

namespace gdf::cluster {

TEST_CASE("two members that cannot reach each other train through one that relays") {
  const auto relays = GENERATE(true, false);
  CAPTURE(relays);
  Cluster cluster(1, relays ? "limits: {relay: 100Mbit/s}\n" : "");
  for (int i = 0; i < 2; ++i) {
    Node& hidden = cluster.AddNode("advertise: [\"127.0.0.1:1\"]\n");  // where nobody listens
    hidden.Start();
    cluster.Join(hidden);
  }
  const Node& here = cluster.node(1);
  const std::string there = cluster.node(2).name();
  if (!relays) {
    const CtlResult ping = here.Ctl({"ping", there, "-c", "1"});
    CHECK(ping.code == 2);
    CHECK(ping.err.find("not reachable") != std::string::npos);
    return;
  }
  const std::string job = cluster.Submit(
      cluster.node(0), {.rounds = 4, .nodes_min = 2, .nodes_max = 2, .set = {"nodes.where=[node1, node2]"}});
  const Json end = JobLog(cluster.node(0), job).AwaitEnd();
  CHECK(end["phase"] == "succeeded");
  CHECK(end["members"].size() == 2);
  CHECK(end["rounds_done"] == 4);
  const Json ping = here.Ask({"ping", there, "-c", "1"})["ping"];
  CHECK(ping["relay"] == cluster.node(0).name());
  CHECK(here.Ask({"ping", cluster.node(0).name(), "-c", "1"})["ping"]["relay"] == "");
}

}  // namespace gdf::cluster
