#include "gdfd/services/explain.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "core/base/hash.h"

namespace gdf::services {
namespace {

using state::JobPhase;

const absl::Time kNow = absl::FromUnixSeconds(1'700'000'000);

NodeId Id(const std::string& name) { return NodeId(HashBytes(name)); }

int64_t Ago(absl::Duration time) { return absl::ToUnixMillis(kNow - time); }

state::Member Node(const std::string& name) {
  state::Member member;
  member.id = Id(name);
  member.profile.name = name;
  member.roles = {trust::Role::kContributor};
  return member;
}

NetworkView Network() {
  NetworkView network;
  for (const char* name : {"ann", "bob", "cem"}) network.members.push_back(Node(name));
  network.online = {Id("ann"), Id("bob"), Id("cem")};
  network.now = kNow;
  return network;
}

state::Event Event(const std::string& node, wire::Severity severity, const std::string& text, absl::Duration ago) {
  static uint64_t id = 0;
  return {++id, Ago(ago), JobId{3}, Id(node), severity, text};
}

// Ten rounds of 10 s each, of which 6 are training and 3 exchange.
JobView Running() {
  JobView view;
  view.job.id = JobId{3};
  view.job.name = "bert";
  view.job.phase = JobPhase::kRunning;
  view.job.members = {Id("ann"), Id("bob")};
  view.job.planned_rounds = 100;
  view.job.rounds_done = 10;
  view.job.submitted_unix_ms = view.job.started_unix_ms = Ago(absl::Minutes(5));
  view.spec.emplace();
  view.spec->nodes.min = view.spec->nodes.max = 2;
  for (uint64_t r = 0; r < 10; ++r) {
    state::RoundRecord record;
    record.round = RoundId{r};
    record.at_unix_ms = Ago(absl::Seconds(5 + 10 * static_cast<int64_t>(9 - r)));
    record.metrics.compute_sec = 6;
    record.metrics.exchange_sec = 3;
    record.metrics.contributors = 2;
    view.rounds.push_back(record);
  }
  return view;
}

std::string All(const Explanation& e) {
  return e.answer + "\n" + absl::StrJoin(e.because, "\n") + "\n" + absl::StrJoin(e.advice, "\n");
}

bool Says(const Explanation& e, absl::string_view text) {
  UNSCOPED_INFO(All(e));
  return absl::StrContains(All(e), text);
}

TEST_CASE("A job that goes on: how far it is, and where a round's time goes") {
  JobView view = Running();
  const Explanation going = ExplainJob(view, Network());
  CHECK(going.answer == "it goes on: 10 of 100 rounds are done, one takes 10 s, the rest about 15 min 0 s");
  CHECK(Says(going, "trains for 60 %, the exchange takes 30 %, and for 10 % somebody waits"));
  CHECK(going.advice.empty());
  for (state::RoundRecord& record : view.rounds) record.metrics.exchange_sec = 5, record.metrics.compute_sec = 4;
  CHECK(Says(ExplainJob(view, Network()), "the links are what it waits for"));
  for (state::RoundRecord& record : view.rounds) record.metrics.exchange_sec = 1;
  CHECK(Says(ExplainJob(view, Network()), "neither training nor the links"));
}

TEST_CASE("A job that has fewer nodes than it may: who is called, who was left out and why") {
  JobView view = Running();
  view.spec->nodes.max = 4;
  view.job.recruits = {Id("cem")};
  view.job.excluded = {{Id("dora"), "no memory"}};
  view.rounds.back().metrics.contributors = 1;
  const Explanation going = ExplainJob(view, Network());
  CHECK(Says(going, "it has 2 of up to 4 nodes"));
  CHECK(Says(going, "cem is called to it"));
  CHECK(Says(going, "is not called again: no memory"));
  CHECK(Says(going, "the last round is made of 1 of its 2 nodes"));
}

TEST_CASE("A job that was sent back: where to and why, and whether by itself") {
  JobView view = Running();
  view.job.rollback = state::Rollback{Epoch{4}, RoundId{8}, HashBytes("theta"), "the loss jumped", 2};
  CHECK(Says(ExplainJob(view, Network()), "it was sent back to round 8: the loss jumped (by itself 2 times)"));
  view.job.phase = JobPhase::kFinished;
  view.job.verdict = wire::Verdict::kFailed;
  view.job.rollback->by_lead = 0;
  const Explanation failed = ExplainJob(view, Network());
  CHECK(failed.because.at(0) == "it was sent back to round 8: the loss jumped");
}

TEST_CASE("A job that stands still says for whom it waits, or that nobody is known to be missing") {
  JobView view = Running();
  NetworkView network = Network();
  network.now = kNow + absl::Minutes(10);
  SECTION("a node that is not online") {
    network.online->erase(Id("bob"));
    const Explanation still = ExplainJob(view, network);
    CHECK(still.answer ==
          "it waits for nodes: 1 of its members is there, and it needs 2 (nodes.min); no round is done for 10 min 5 s");
    CHECK(still.because.at(0) == "bob is not online");
  }
  SECTION("a node that is paused") {
    network.members[0].profile.resources.paused = true;
    CHECK(Says(ExplainJob(view, network), "ann is paused by its owner"));
  }
  SECTION("a node that was banned") {
    network.members[1].status = state::MemberStatus::kBanned;
    network.members[1].reason = "mining";
    CHECK(Says(ExplainJob(view, network), "bob is banned: mining"));
  }
  SECTION("nobody") {
    view.events.push_back(Event("ann", wire::Severity::kWarning, "the disk is full", absl::Minutes(1)));
    const Explanation still = ExplainJob(view, network);
    CHECK(Says(still, "no round is done for 10 min 5 s though its nodes are there"));
    CHECK(Says(still, "11 min 0 s ago, ann: the disk is full"));
  }
  SECTION("its nodes load") {
    view.rounds.clear();
    view.job.rounds_done = 0;
    CHECK(Says(ExplainJob(view, network), "its nodes fetch the inputs and load the model; placed 15 min 0 s ago"));
  }
  SECTION("who is online is not known") {
    network.online.reset();
    CHECK(Says(ExplainJob(view, network), "though its nodes are there"));
  }
}

TEST_CASE("A job that waits, and jobs that have ended") {
  JobView view = Running();
  view.job.phase = JobPhase::kPending;
  view.job.owner = Id("ann");
  CHECK(Says(ExplainJob(view, Network()), "the coordinator knows for what"));
  view.waiting_for = "needs 5 nodes: 3 can contribute";
  CHECK(ExplainJob(view, Network()).answer == "it waits: needs 5 nodes: 3 can contribute");
  CHECK(Says(ExplainJob(view, Network()), "ago by ann"));
  view.job.phase = JobPhase::kFinished;
  view.job.finished_unix_ms = Ago(absl::Minutes(1));
  view.job.verdict = wire::Verdict::kFailed;
  view.job.reason = "no member has a delta";
  view.events.push_back(Event("bob", wire::Severity::kError, "the loss is not finite", absl::Minutes(1)));
  const Explanation failed = ExplainJob(view, Network());
  CHECK(failed.answer == "it failed 1 min 0 s ago, after 10 rounds of 100 in 4 min 0 s: no member has a delta");
  CHECK(Says(failed, "bob: the loss is not finite"));
  CHECK(Says(failed, "gdfctl job export j3"));
  view.job.verdict = wire::Verdict::kSucceeded;
  view.job.reason.clear();
  CHECK(ExplainJob(view, Network()).because.empty());
}

TEST_CASE("A node: what it does, or what it is kept from it by") {
  NetworkView network = Network();
  const JobView view = Running();
  CHECK(ExplainNode(network.members[0], {view}, network).answer == "it takes part in j3 (bert)");
  CHECK(Says(ExplainNode(network.members[2], {}, network), "no job runs or waits"));
  CHECK(Says(ExplainNode(network.members[2], {view}, network), "no running job has a place for it"));
  network.members[0].profile.resources.paused = true;
  const Explanation paused = ExplainNode(network.members[0], {view}, network);
  CHECK(paused.answer == "it is paused by its owner");
  CHECK(Says(paused, "it still has its place in j3 (bert)"));
  CHECK(Says(paused, "gdfctl resume"));
  network.members[2].roles = {trust::Role::kSubmitter};
  CHECK(Says(ExplainNode(network.members[2], {view}, network), "no contributor"));
  JobView without = Running();
  without.job.excluded = {{Id("bob"), "no memory"}};
  without.job.members = {Id("ann")};
  CHECK(Says(ExplainNode(network.members[1], {without}, network), "in j3 (bert) it is not called again: no memory"));
  JobView waits = Running();
  waits.job.phase = JobPhase::kPending;
  waits.job.members.clear();
  waits.waiting_for = "needs 5 nodes";
  CHECK(Says(ExplainNode(network.members[1], {waits}, network), "j3 waits: needs 5 nodes"));
}

}  // namespace
}  // namespace gdf::services
