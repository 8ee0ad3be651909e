#include "gdfd/jobs/absences.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "core/base/hash.h"

namespace gdf::jobs {
namespace {

NodeId Node(int i) { return NodeId(HashBytes(std::to_string(i))); }

state::Job Running(uint64_t id, std::vector<NodeId> members) {
  state::Job job;
  job.id = JobId{id};
  job.phase = state::JobPhase::kRunning;
  job.members = std::move(members);
  return job;
}

// Node 1 tells.
struct Watch {
  std::set<NodeId> away;
  Absences absences{Node(1), [this](const NodeId& node) { return away.count(node) == 0; }};
  std::vector<state::Job> jobs = {Running(1, {Node(1), Node(2), Node(3)})};

  std::string At(int second) {
    std::string told;
    for (const wire::JobEvent& event : absences.Update(jobs, absl::Seconds(second))) {
      CHECK(event.node == Node(1));
      const bool warns = event.severity == wire::Severity::kWarning;
      told += ToString(event.job) + (warns ? " warning: " : " info: ") + event.text + "\n";
    }
    return told;
  }
};

TEST_CASE("A member that stays away is told of once, and again when it is back") {
  Watch watch;
  const std::string two = "node " + Node(2).Short();
  CHECK(watch.At(100) == "");
  CHECK(watch.absences.Next() == absl::InfiniteDuration());
  watch.away = {Node(2)};
  CHECK(watch.At(110) == "");
  CHECK(watch.absences.Next() == absl::Seconds(140));
  CHECK(watch.At(139) == "");
  CHECK(watch.At(140) == "j1 warning: " + two + " has not been online for 30 s\n");
  CHECK(watch.absences.Next() == absl::InfiniteDuration());
  CHECK(watch.At(1000) == "");
  watch.away = {};
  CHECK(watch.At(230) == "j1 info: " + two + " is online again after 2 min 0 s\n");
  CHECK(watch.At(240) == "");
}

TEST_CASE("A link that comes and goes is not told of") {
  Watch watch;
  for (int second = 0; second < 600; second += 10) {
    watch.away = second % 30 == 0 ? std::set<NodeId>{} : std::set<NodeId>{Node(3)};
    CHECK(watch.At(second) == "");
  }
}

TEST_CASE("Of each job that an absent node is in it is told, and of no other") {
  Watch watch;
  watch.jobs.push_back(Running(2, {Node(2)}));
  watch.jobs.push_back(Running(3, {Node(3)}));
  state::Job ended = Running(4, {Node(2)});
  ended.phase = state::JobPhase::kFinished;
  watch.jobs.push_back(ended);
  watch.away = {Node(2)};
  CHECK(watch.At(0) == "");
  const std::string told = watch.At(30);
  for (const char* job : {"j1 ", "j2 "}) CHECK(told.find(job) != std::string::npos);
  for (const char* job : {"j3 ", "j4 "}) CHECK(told.find(job) == std::string::npos);
  // The first goes on without it, the second has ended: there it does not come back.
  watch.jobs[0].members = {Node(1), Node(3)};
  watch.jobs[1].phase = state::JobPhase::kFinished;
  CHECK(watch.At(40) == "");
  watch.away = {};
  CHECK(watch.At(50) == "");
}

}  // namespace
}  // namespace gdf::jobs
