#include "fixture.h"

namespace gdf::state {
namespace {

using absl::StatusCode;
using trust::Role;
using wire::Verdict;

// Nodes: c (coordinator), s (submitter), a and b (contributors).
struct JobWorld : World {
  JobWorld() {
    Found();
    Admit("s", {Role::kSubmitter});
    Admit("a", {Role::kContributor});
    Admit("b", {Role::kContributor});
  }
  uint64_t Submit(std::string_view token = "t") {
    const auto result = Propose("s", Submission(token));
    REQUIRE(result->status.ok());
    return result->job.value;
  }
};

TEST_CASE("a job goes from pending over running to finished") {
  JobWorld w;
  const uint64_t j = w.Submit();
  CHECK(j == 1);
  Job job = *w.state->job({j});
  CHECK(job.phase == JobPhase::kPending);
  CHECK(job.owner == IdOf("s"));
  CHECK(job.spec_yaml == "name: char-gpt\n");
  CHECK(job.inputs == World::Submission("t").inputs);
  CHECK(job.planned_rounds == 40);
  CHECK(job.epoch.value == 0);

  w.clock.PostAfter(absl::Seconds(5), [] {});
  w.clock.RunUntilIdle();
  REQUIRE(w.Do("c", World::EpochOf(j, 1, {"a", "b"})).ok());
  job = *w.state->job({j});
  CHECK(job.phase == JobPhase::kRunning);
  CHECK(job.members == std::vector<NodeId>{IdOf("a"), IdOf("b")});
  CHECK(job.lead == IdOf("a"));
  CHECK(job.started_unix_ms == job.submitted_unix_ms + 5000);

  REQUIRE(w.Do("a", World::Report(j, 1, 0)).ok());
  REQUIRE(w.Do("a", World::Report(j, 1, 1)).ok());
  job = *w.state->job({j});
  CHECK(job.rounds_done == 2);
  CHECK(job.theta == World::Report(j, 1, 1).theta);
  CHECK(job.metrics == World::Report(j, 1, 1).metrics);
  CHECK(w.state->rounds({j}, {0})->size() == 2);
  CHECK(w.state->rounds({j}, {1})->at(0).round.value == 1);
  CHECK(w.state->rounds({j}, {0}, 1)->size() == 1);

  wire::FinishJob finish = World::Finish(j, 1, Verdict::kSucceeded, 2);
  finish.theta = HashBytes("final");
  REQUIRE(w.Do("a", finish).ok());
  job = *w.state->job({j});
  CHECK(job.phase == JobPhase::kFinished);
  CHECK(job.verdict == Verdict::kSucceeded);
  CHECK(job.theta == HashBytes("final"));
  CHECK(job.finished_unix_ms == w.now_ms());
  const std::vector<Job> jobs = *w.state->jobs();
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].members == job.members);
  CHECK(jobs[0].spec_yaml.empty());
}

TEST_CASE("submitting again with the same token gives the same job") {
  JobWorld w;
  const uint64_t j = w.Submit("t");
  CHECK(w.Submit("t") == j);
  CHECK(w.Submit("u") == j + 1);
  CHECK(w.Propose("c", World::Submission("t"))->job.value == j + 2);  // another submitter's token
  wire::SubmitJob other = World::Submission("t");
  other.spec_yaml += "# changed\n";
  w.Refused("s", other, StatusCode::kAlreadyExists, "was used for job j1, which is a different one");
  CHECK(w.state->jobs()->size() == 3);
}

TEST_CASE("who may submit, with inputs that someone holds") {
  JobWorld w;
  w.Refused("a", World::Submission("t"), StatusCode::kPermissionDenied, "to submit a job a node needs the role");
  w.Refused("x", World::Submission("t"), StatusCode::kPermissionDenied, "is not a member");
  wire::SubmitJob submit = World::Submission("t");
  submit.inputs[0].holder = IdOf("x");
  w.Refused("s", submit, StatusCode::kNotFound, "the holder of input data");
}

TEST_CASE("a submitter has a bounded number of jobs that wait") {
  JobWorld w;
  for (int i = 1; i <= 100; ++i) w.Submit("t" + std::to_string(i));
  w.Refused("s", World::Submission("t101"), StatusCode::kResourceExhausted, "100 jobs of this node wait");
  CHECK(w.Propose("s", World::Submission("t7"))->job.value == 7);  // not a new one
  CHECK(w.Do("c", World::Submission("t101")).ok());                // another's
  REQUIRE(w.Do("s", wire::CancelJob{{7}, ""}).ok());
  w.Submit("t101");
  w.Refused("s", World::Submission("t102"), StatusCode::kResourceExhausted, "100 jobs of this node wait");
  REQUIRE(w.Do("c", World::EpochOf(8, 1, {"a"})).ok());
  w.Submit("t102");
}

TEST_CASE("epochs are opened by a coordinator, one after the other, with contributors") {
  JobWorld w;
  const uint64_t j = w.Submit();
  w.Refused("a", World::EpochOf(j, 1, {"a"}), StatusCode::kPermissionDenied, "only a coordinator may open an epoch");
  w.Refused("c", World::EpochOf(99, 1, {"a"}), StatusCode::kNotFound, "there is no job j99");
  w.Refused("c", World::EpochOf(j, 2, {"a"}), StatusCode::kAborted, "the next is 1, not 2");
  w.Refused("c", World::EpochOf(j, 1, {"a", "s"}), StatusCode::kPermissionDenied, "to take part in a job");
  w.Refused("c", World::EpochOf(j, 1, {"x"}), StatusCode::kPermissionDenied, "is not a member");
  REQUIRE(w.Do("c", World::EpochOf(j, 1, {"a", "b"})).ok());
  w.Refused("c", World::EpochOf(j, 1, {"a"}), StatusCode::kAborted, "the next is 2, not 1");
  REQUIRE(w.Do("c", wire::RemoveNode{IdOf("b"), ""}).ok());
  w.Refused("c", World::EpochOf(j, 2, {"a", "b"}), StatusCode::kPermissionDenied, "is removed");
  REQUIRE(w.Do("c", World::EpochOf(j, 2, {"a"})).ok());
  CHECK(w.state->job({j})->members == std::vector<NodeId>{IdOf("a")});
}

TEST_CASE("the members of earlier epochs stay on record, within bounds") {
  JobWorld w;
  const uint64_t j = w.Submit();
  const uint64_t k = w.Submit("k");
  CHECK(absl::IsNotFound(w.state->epoch_members({j}, {1}).status()));
  REQUIRE(w.Do("c", World::EpochOf(j, 1, {"a", "b"})).ok());
  REQUIRE(w.Do("c", World::EpochOf(j, 2, {"b"})).ok());
  CHECK(*w.state->epoch_members({j}, {1}) == std::vector<NodeId>{IdOf("a"), IdOf("b")});
  CHECK(*w.state->epoch_members({j}, {2}) == std::vector<NodeId>{IdOf("b")});
  CHECK(w.state->epoch_members({j}, {3}).status().message() == "the network's record has no epoch 3 of job j1");
  CHECK(absl::IsNotFound(w.state->epoch_members({k}, {1}).status()));
  const std::vector<Job> jobs = *w.state->jobs();
  CHECK(jobs[1].members == std::vector<NodeId>{IdOf("b")});
  CHECK(jobs[0].members.empty());
  for (uint64_t epoch = 3; epoch <= 1002; ++epoch) REQUIRE(w.Do("c", World::EpochOf(j, epoch, {"a"})).ok());
  CHECK(absl::IsNotFound(w.state->epoch_members({j}, {2}).status()));
  CHECK(w.state->epoch_members({j}, {3})->size() == 1);
  CHECK(w.state->epoch_members({j}, {1})->size() == 2);  // where the job began
}

TEST_CASE("nodes are called to a running job by a coordinator, and are members from the epoch that has them") {
  JobWorld w;
  const uint64_t j = w.Submit();
  using wire::RecruitAction;
  const auto recruit = [&](std::string_view node, RecruitAction action) {
    return wire::Recruit{{j}, IdOf(node), action, "why"};
  };
  w.Refused("c", recruit("b", RecruitAction::kCall), StatusCode::kFailedPrecondition, "is not running");
  REQUIRE(w.Do("c", World::EpochOf(j, 1, {"a"})).ok());
  w.Refused("a", recruit("b", RecruitAction::kCall), StatusCode::kPermissionDenied, "only a coordinator may call nodes");
  w.Refused("c", recruit("a", RecruitAction::kCall), StatusCode::kFailedPrecondition, "is a member of job");
  w.Refused("c", recruit("s", RecruitAction::kCall), StatusCode::kPermissionDenied, "to take part in a job");
  REQUIRE(w.Do("c", recruit("b", RecruitAction::kCall)).ok());
  w.Refused("c", recruit("b", RecruitAction::kCall), StatusCode::kFailedPrecondition, "is called already");
  CHECK(w.state->job({j})->recruits == std::vector<NodeId>{IdOf("b")});
  CHECK((*w.state->jobs())[0].IsRecruit(IdOf("b")));
  CHECK((*w.state->jobs())[0].HasPart(IdOf("a")));
  SECTION("a member is a recruit no more") {
    REQUIRE(w.Do("c", World::EpochOf(j, 2, {"a", "b"})).ok());
    CHECK(w.state->job({j})->recruits.empty());
    CHECK(w.state->epochs_past({j})->most_members == 2);
    REQUIRE(w.Do("c", World::EpochOf(j, 3, {"b"})).ok());
    const EpochsPast past = *w.state->epochs_past({j});
    CHECK(past.most_members == 2);
    CHECK(past.members.size() == 2);
  }
  SECTION("who is dismissed may be called again, who is excluded may not") {
    REQUIRE(w.Do("c", recruit("b", RecruitAction::kDismiss)).ok());
    CHECK(w.state->job({j})->recruits.empty());
    REQUIRE(w.Do("c", recruit("b", RecruitAction::kCall)).ok());
    REQUIRE(w.Do("c", recruit("b", RecruitAction::kExclude)).ok());
    CHECK(w.state->job({j})->recruits.empty());
    CHECK(w.state->job({j})->excluded == std::vector<Exclusion>{{IdOf("b"), "why"}});
    CHECK((*w.state->jobs())[0].IsExcluded(IdOf("b")));
    REQUIRE(w.Do("c", recruit("b", RecruitAction::kDismiss)).ok());
    w.Refused("c", recruit("b", RecruitAction::kCall), StatusCode::kFailedPrecondition, "is excluded");
  }
  SECTION("under its new id when it replaces its key") {
    const std::string record = trust::KeyRotation::Make(w.state->network()->id, KeyOf("b"), KeyOf("b2"), w.now_ms());
    REQUIRE(w.Do("b", wire::RotateKey{record}).ok());
    CHECK(w.state->job({j})->recruits == std::vector<NodeId>{IdOf("b2")});
  }
  SECTION("a job that has ended has none") {
    REQUIRE(w.Do("c", World::Finish(j, 1, wire::Verdict::kFailed)).ok());
    CHECK(w.state->job({j})->recruits.empty());
  }
}

TEST_CASE("rounds are reported by the lead of the current epoch, forwards") {
  JobWorld w;
  const uint64_t j = w.Submit();
  w.Refused("a", World::Report(j, 0, 0), StatusCode::kPermissionDenied, "only the lead");
  REQUIRE(w.Do("c", World::EpochOf(j, 1, {"a", "b"})).ok());
  w.Refused("b", World::Report(j, 1, 0), StatusCode::kPermissionDenied, "only the lead");
  w.Refused("a", World::Report(j, 2, 0), StatusCode::kAborted, "is in epoch 1, the command is for epoch 2");
  REQUIRE(w.Do("a", World::Report(j, 1, 0)).ok());
  REQUIRE(w.Do("a", World::Report(j, 1, 3)).ok());  // reports may be missing
  w.Refused("a", World::Report(j, 1, 3), StatusCode::kAborted, "round 3 was reported already");
  w.Refused("a", World::Report(j, 1, 1), StatusCode::kAborted, "has 4 rounds");
  REQUIRE(w.Do("c", wire::BanNode{IdOf("a"), ""}).ok());
  w.Refused("a", World::Report(j, 1, 4), StatusCode::kPermissionDenied, "is banned");
}

TEST_CASE("a job is rolled back by its submitter or an admin: an epoch of its nodes begins that goes on from there") {
  JobWorld w;
  const uint64_t j = w.Submit();
  const auto back = [j](uint64_t round) { return wire::RollBackJob{{j}, {round}, HashBytes("kept"), "diverged"}; };
  w.Refused("s", back(2), StatusCode::kFailedPrecondition, "has not begun");
  REQUIRE(w.Do("c", World::EpochOf(j, 1, {"a", "b"})).ok());
  for (uint64_t round = 0; round < 5; ++round) REQUIRE(w.Do("a", World::Report(j, 1, round)).ok());
  CHECK_FALSE(w.state->job({j})->rollback);
  w.Admit("s2", {Role::kSubmitter});
  w.Refused("s2", back(2), StatusCode::kPermissionDenied, "may roll it back");
  w.Refused("a", back(2), StatusCode::kPermissionDenied, "to roll a job back");
  SECTION("all of them") {
    REQUIRE(w.Do("s", back(2)).ok());
    const Job job = *w.state->job({j});
    CHECK(job.epoch == Epoch{2});
    CHECK(job.members == std::vector<NodeId>{IdOf("a"), IdOf("b")});
    CHECK(job.lead == IdOf("a"));
    CHECK(job.rounds_done == 2);
    CHECK(job.theta == HashBytes("kept"));
    CHECK(job.rollback == Rollback{Epoch{2}, RoundId{2}, HashBytes("kept"), "diverged", 0});
    CHECK(w.state->rounds({j}, RoundId{0}, 100)->size() == 2);
    CHECK(w.state->epoch_members({j}, Epoch{2})->size() == 2);
    w.Refused("a", World::Report(j, 1, 5), StatusCode::kAborted, "is in epoch 2");
    REQUIRE(w.Do("a", World::Report(j, 2, 2)).ok());
    CHECK(w.state->job({j})->rounds_done == 3);
    // Again, and forward to what was kept before.
    REQUIRE(w.Do("c", back(4)).ok());
    CHECK(w.state->job({j})->rollback == Rollback{Epoch{3}, RoundId{4}, HashBytes("kept"), "diverged", 0});
    CHECK(w.state->job({j})->rounds_done == 4);
    const auto events = *w.state->events(0, {{}, {}, wire::Severity::kWarning});
    CHECK(events.back().text == "job j1 is rolled back from 3 rounds to 4: diverged");
  }
  SECTION("by its lead, as it has gone wrong: so often and no more") {
    const auto by_lead = [&](uint64_t epoch, uint64_t round) {
      wire::RollBackJob back{{j}, {round}, HashBytes("kept"), "the loss jumped"};
      back.epoch = Epoch{epoch};
      return back;
    };
    w.Refused("b", by_lead(1, 2), StatusCode::kPermissionDenied, "is not the lead");
    w.Refused("s", by_lead(1, 2), StatusCode::kPermissionDenied, "is not the lead");
    w.Refused("a", by_lead(2, 2), StatusCode::kAborted, "is in epoch 1");
    w.Refused("a", by_lead(1, 6), StatusCode::kFailedPrecondition, "none to go back from");
    for (uint64_t n = 1; n <= wire::kMaxOwnRollbacks; ++n) {
      REQUIRE(w.Do("a", by_lead(n, 2)).ok());
      CHECK(w.state->job({j})->rollback == Rollback{Epoch{n + 1}, RoundId{2}, HashBytes("kept"), "the loss jumped", n});
    }
    CHECK(w.state->job({j})->epoch_reason == "rolled back to round 2: the loss jumped");
    const uint64_t epoch = w.state->job({j})->epoch.value;
    w.Refused("a", by_lead(epoch, 2), StatusCode::kFailedPrecondition, "has gone back by itself 10 times");
    REQUIRE(w.Do("s", back(1)).ok());  // people may, and what it did by itself stays counted
    CHECK(w.state->job({j})->rollback->by_lead == 10);
    CHECK(w.state->events(0, {{}, {}, wire::Severity::kWarning})->at(0).text ==
          "job j1 goes back by itself from 5 rounds to 2: the loss jumped");
  }
  SECTION("without one that is no member of the network any more") {
    REQUIRE(w.Do("c", wire::BanNode{IdOf("a"), ""}).ok());
    REQUIRE(w.Do("s", back(2)).ok());
    CHECK(w.state->job({j})->members == std::vector<NodeId>{IdOf("b")});
    CHECK(w.state->job({j})->lead == IdOf("b"));
    REQUIRE(w.Do("c", wire::BanNode{IdOf("b"), ""}).ok());
    w.Refused("s", back(1), StatusCode::kFailedPrecondition, "has no nodes");
  }
  SECTION("not when it has ended") {
    REQUIRE(w.Do("s", wire::CancelJob{{j}, ""}).ok());
    w.Refused("s", back(2), StatusCode::kFailedPrecondition, "cannot be rolled back");
  }
}

TEST_CASE("a new lead may finish the last round or go back to a checkpoint, visibly") {
  JobWorld w;
  const uint64_t j = w.Submit();
  REQUIRE(w.Do("c", World::EpochOf(j, 1, {"a", "b"})).ok());
  for (uint64_t round = 0; round < 5; ++round) REQUIRE(w.Do("a", World::Report(j, 1, round)).ok());
  const auto warnings = [&] { return w.state->events(0, {{}, {}, wire::Severity::kWarning})->size(); };
  const size_t before = warnings();
  REQUIRE(w.Do("c", World::EpochOf(j, 2, {"b"})).ok());
  REQUIRE(w.Do("b", World::Report(j, 2, 4)).ok());  // the same θ
  CHECK(warnings() == before);
  CHECK(w.state->job({j})->rounds_done == 5);
  REQUIRE(w.Do("c", World::EpochOf(j, 3, {"b"})).ok());
  REQUIRE(w.Do("b", World::Report(j, 3, 2, "other")).ok());
  CHECK(warnings() == before + 1);
  CHECK(w.state->job({j})->rounds_done == 3);
  CHECK(w.state->rounds({j}, {0})->size() == 3);
  CHECK(w.state->rounds({j}, {2})->at(0).theta == World::Report(j, 3, 2, "other").theta);
}

TEST_CASE("who may end a job how") {
  JobWorld w;
  const uint64_t j = w.Submit();
  w.Refused("a", World::Finish(j, 0, Verdict::kFailed), StatusCode::kPermissionDenied, "may not end job j1 as failed");
  w.Refused("c", World::Finish(j, 0, Verdict::kSucceeded), StatusCode::kPermissionDenied, "as succeeded");
  REQUIRE(w.Do("c", World::EpochOf(j, 1, {"a", "b"})).ok());
  w.Refused("b", World::Finish(j, 1, Verdict::kSucceeded), StatusCode::kPermissionDenied, "it is not its lead");
  w.Refused("a", World::Finish(j, 1, Verdict::kCancelled), StatusCode::kPermissionDenied, "as cancelled");
  w.Refused("a", World::Finish(j, 0, Verdict::kSucceeded), StatusCode::kAborted, "is in epoch 1");
  REQUIRE(w.Do("a", World::Finish(j, 1, Verdict::kFailed)).ok());

  const uint64_t k = w.Submit("k");
  wire::FinishJob unplaced = World::Finish(k, 0, Verdict::kFailed);
  unplaced.reason = "no node has 80 GiB";
  REQUIRE(w.Do("c", unplaced).ok());
  CHECK(w.state->job({k})->reason == "no node has 80 GiB");
  CHECK(w.state->events(0, {JobId{k}, {}, wire::Severity::kError})->at(0).text == "job j2 failed: no node has 80 GiB");
}

TEST_CASE("a job is cancelled by its submitter or an admin, and then it has ended") {
  JobWorld w;
  const uint64_t j = w.Submit();
  w.Admit("s2", {Role::kSubmitter});
  w.Refused("s2", wire::CancelJob{{j}, ""}, StatusCode::kPermissionDenied, "submitted by another node");
  w.Refused("a", wire::CancelJob{{j}, ""}, StatusCode::kPermissionDenied, "to cancel a job");
  REQUIRE(w.Do("c", World::EpochOf(j, 1, {"a", "b"})).ok());
  REQUIRE(w.Do("s", wire::CancelJob{{j}, "wrong data"}).ok());
  CHECK(w.state->job({j})->verdict == Verdict::kCancelled);
  const std::string_view ended = "job j1 has ended (cancelled)";
  w.Refused("s", wire::CancelJob{{j}, ""}, StatusCode::kFailedPrecondition, ended);
  w.Refused("a", World::Report(j, 1, 0), StatusCode::kFailedPrecondition, ended);
  w.Refused("a", World::Finish(j, 1, Verdict::kSucceeded), StatusCode::kFailedPrecondition, ended);
  w.Refused("c", World::EpochOf(j, 2, {"a"}), StatusCode::kFailedPrecondition, ended);
  REQUIRE(w.Do("c", wire::CancelJob{{w.Submit("u")}, ""}).ok());  // an admin
}

TEST_CASE("events come from a job's members, about themselves, and can be filtered") {
  JobWorld w;
  const uint64_t j = w.Submit();
  REQUIRE(w.Do("c", World::EpochOf(j, 1, {"a"})).ok());
  const auto event = [&](std::string_view node, uint64_t job) {
    return wire::JobEvent{{job}, IdOf(node), wire::Severity::kError, "worker crashed: signal 9"};
  };
  REQUIRE(w.Do("a", event("a", j)).ok());
  REQUIRE(w.Do("b", event("b", 0)).ok());
  REQUIRE(w.Do("c", event("b", j)).ok());
  w.Refused("b", event("b", j), StatusCode::kPermissionDenied, "does not take part in job j1");
  w.Refused("a", event("b", j), StatusCode::kPermissionDenied, "events of its own");
  w.Refused("a", event("a", 7), StatusCode::kNotFound, "there is no job j7");
  w.Refused("x", event("x", 0), StatusCode::kPermissionDenied, "is not a member");
  CHECK(w.state->events(0, {{}, {}, wire::Severity::kError})->size() == 3);
  const auto of_a = *w.state->events(0, {JobId{j}, IdOf("a"), wire::Severity::kError});
  REQUIRE(of_a.size() == 1);
  CHECK(of_a[0].text == "worker crashed: signal 9");
  CHECK(w.state->events(of_a[0].id, {{}, {}, wire::Severity::kError})->size() == 2);
  CHECK(w.state->events(0, {}, 2)->size() == 2);
  const auto newest = *w.state->newest_events({}, 2);
  REQUIRE(newest.size() == 2);
  CHECK(newest[0].id + 1 == newest[1].id);
  CHECK(newest[1].id == w.state->events(0)->back().id);
  CHECK(w.state->newest_events({JobId{j}, IdOf("a"), wire::Severity::kError}, 9)->size() == 1);
}

}  // namespace
}  // namespace gdf::state
