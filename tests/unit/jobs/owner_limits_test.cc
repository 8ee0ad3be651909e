// What a node's owner allows counts, whatever a job wishes.
#include "tests/unit/jobs/job_network.h"

namespace gdf::jobs {
namespace {

using absl::StatusCode;
using trust::Role;
using trust::RoleSet;

std::string WithThreads(int threads) {
  std::string yaml = JobYaml("  count: 2\n");
  yaml.insert(yaml.find("  batch_size"), absl::StrCat("  threads: ", threads, "\n"));
  return yaml;
}

TEST_CASE("A worker has no more threads than the owner allows, and the job's log says so") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  net.Crash(n2);
  n2.worker_threads = 2;
  net.Start(n2);
  REQUIRE(net.Comes([&] { return net.coordinator().membership->IsOnline(n2.id()); }));
  const JobId many = net.Submit(n1, WithThreads(8));
  REQUIRE(net.Finishes(many));
  CHECK(n1.threads == std::vector<int64_t>{8});
  CHECK(n2.threads == std::vector<int64_t>{2});
  CHECK(net.HasEvent("computes with 2 threads, not 8: limits.cpu_threads"));
  const JobId few = net.Submit(n1, WithThreads(1));
  REQUIRE(net.Finishes(few));
  CHECK(n2.threads == std::vector<int64_t>{2, 1});
  const JobId any = net.Submit(n1, JobYaml("  count: 2\n"));
  REQUIRE(net.Finishes(any));
  CHECK(n1.threads.back() == 0);
  CHECK(n2.threads == std::vector<int64_t>{2, 1, 2});
}

TEST_CASE("Samples are no more than the owner allows, also while a job trains, and neither waits for the other") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  net.Add({Role::kContributor});
  const JobId done = net.Submit(n1, JobYaml("  count: 2\n"));
  REQUIRE(net.Finishes(done));
  const JobId next = net.Submit(n1, JobYaml("  count: 2\n"));
  REQUIRE(net.Comes([&] { return net.Job(next).rounds_done == 1; }));
  absl::StatusOr<Sampler> sampler = net.Await(n1.host->OpenSampler(next));
  INFO(sampler.status());
  REQUIRE(sampler.ok());
  CHECK(Says(net.Await(n1.host->OpenSampler(done)).status(), StatusCode::kResourceExhausted,
             "limits.tasks: 1"));
  REQUIRE(net.Finishes(next));
  CHECK(net.Job(next).verdict == wire::Verdict::kSucceeded);
  sampler = absl::CancelledError("over");
  CHECK(net.Await(n1.host->OpenSampler(done)).ok());
}

TEST_CASE("A job waits for one that the owner's limit leaves no room beside") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor});
  TaskSlots::Slot taken = n2.job_slots.TryTake();
  const JobId id = net.Submit(n1, JobYaml("  count: 2\n"));
  REQUIRE(net.Comes([&] { return net.HasEvent("waiting for other tasks of this node"); }));
  CHECK(n2.workers == 0);
  taken.reset();
  REQUIRE(net.Finishes(id));
  CHECK(net.Job(id).verdict == wire::Verdict::kSucceeded);
}

}  // namespace
}  // namespace gdf::jobs
