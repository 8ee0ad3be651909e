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

TEST_CASE("Jobs and samples together are no more than the owner allows") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  net.Add({Role::kContributor});
  const JobId done = net.Submit(n1, JobYaml("  count: 2\n"));
  REQUIRE(net.Finishes(done));
  REQUIRE(net.Comes([&] { return n1.host->Find(done) == nullptr; }));
  {
    const absl::StatusOr<Sampler> sampler = net.Await(n1.host->OpenSampler(done));
    INFO(sampler.status());
    REQUIRE(sampler.ok());
    CHECK(Says(net.Await(n1.host->OpenSampler(done)).status(), StatusCode::kResourceExhausted,
               "limits.tasks: 1"));
  }
  const JobId next = net.Submit(n1, JobYaml("  count: 2\n"));
  REQUIRE(net.Comes([&] { return net.Job(next).rounds_done == 1; }));
  CHECK(Says(net.Await(n1.host->OpenSampler(done)).status(), StatusCode::kResourceExhausted,
             "limits.tasks: 1"));
  REQUIRE(net.Finishes(next));
}

TEST_CASE("A sample waits for a job that has its verdict to clear up") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  net.Add({Role::kContributor});
  const JobId done = net.Submit(n1, JobYaml("  count: 2\n"));
  REQUIRE(net.Comes([&] { return n1.state->job(done)->phase == state::JobPhase::kFinished; }));
  REQUIRE(n1.host->Find(done) != nullptr);
  const absl::StatusOr<Sampler> sampler = net.Await(n1.host->OpenSampler(done));
  INFO(sampler.status());
  CHECK(sampler.ok());
}

TEST_CASE("A job waits for the end of a sample") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  net.Add({Role::kContributor});
  const JobId done = net.Submit(n1, JobYaml("  count: 2\n"));
  REQUIRE(net.Finishes(done));
  REQUIRE(net.Comes([&] { return n1.host->Find(done) == nullptr; }));
  absl::StatusOr<Sampler> sampler = net.Await(n1.host->OpenSampler(done));
  REQUIRE(sampler.ok());
  const int workers = n1.workers;
  const JobId next = net.Submit(n1, JobYaml("  count: 2\n"));
  REQUIRE(net.Comes([&] { return net.HasEvent("waiting for other tasks of this node"); }));
  CHECK(n1.workers == workers);
  sampler = absl::CancelledError("over");
  REQUIRE(net.Finishes(next));
  CHECK(net.Job(next).verdict == wire::Verdict::kSucceeded);
}

}  // namespace
}  // namespace gdf::jobs
