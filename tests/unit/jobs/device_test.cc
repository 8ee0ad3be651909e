// Which device a job computes on here, and what becomes of it when that device cannot be used.
#include "gdfd/jobs/device.h"

#include "tests/unit/jobs/job_network.h"

namespace gdf::jobs {
namespace {

using absl::StatusCode;
using config::Device;
using train::GpuDevice;
using Gpus = std::vector<GpuDevice>;
using trust::Role;
using trust::RoleSet;

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kMemory = 8 * kGiB;

// Needs 10 GiB on a CPU; 1 GiB of the host and 9 GiB of a GPU on one.
struct Sample {
  config::JobSpec spec;
  schedule::JobRequest request;

  explicit Sample(Device device) {
    spec.nodes.device = device;
    request.spec = &spec;
    request.host_memory_on_cpu.Add("all", 10 * kGiB);
    request.host_memory_on_gpu.Add("outer state", kGiB);
    request.gpu_memory.Add("parameters", 9 * kGiB);
  }
};

GpuDevice Gpu(int64_t index, uint64_t gib) {
  return {index, absl::StrCat("gpu", index), "9.0", gib * kGiB};
}

TEST_CASE("auto takes the first GPU that has the memory, else the CPU") {
  const Sample job(Device::kAuto);
  const std::vector<GpuDevice> gpus = {Gpu(0, 8), Gpu(2, 9), Gpu(3, 80)};
  CHECK(*ChooseGpus(job.request, 16 * kGiB, gpus) == Gpus{Gpu(2, 9)});
  CHECK(ChooseGpus(job.request, 16 * kGiB, {Gpu(0, 8)})->empty());
  CHECK(ChooseGpus(job.request, 16 * kGiB, {})->empty());
  CHECK(ChooseGpus(job.request, kGiB - 1, gpus)->empty());  // of the host's
}

TEST_CASE("a job for CPUs takes no GPU, one for GPUs nothing else") {
  CHECK(ChooseGpus(Sample(Device::kCpu).request, 16 * kGiB, {Gpu(0, 80)})->empty());
  Sample job(Device::kGpu);
  CHECK(*ChooseGpus(job.request, 16 * kGiB, {Gpu(0, 80)}) == Gpus{Gpu(0, 80)});
  CHECK(Says(ChooseGpus(job.request, 16 * kGiB, {Gpu(0, 8)}).status(),
             StatusCode::kFailedPrecondition,
             "needs a GPU with 9.0 GiB and 1.0 GiB of host memory; this node has gpu0 with 8.0 GiB "
             "and 16.0 GiB"));
  CHECK(Says(ChooseGpus(job.request, 16 * kGiB, {}).status(), StatusCode::kFailedPrecondition,
             "this node has no GPU that it can use and 16.0 GiB"));
  job.spec.nodes.gpu_memory_bytes = 81 * kGiB;
  CHECK(Says(ChooseGpus(job.request, 16 * kGiB, {Gpu(0, 80)}).status(),
             StatusCode::kFailedPrecondition, "a GPU with 81.0 GiB"));
}

TEST_CASE("a job for several GPUs of a node takes the first that have the memory") {
  Sample job(Device::kGpu);
  job.spec.nodes.gpus = 2;
  CHECK(*ChooseGpus(job.request, 16 * kGiB, {Gpu(0, 8), Gpu(1, 80), Gpu(2, 9), Gpu(3, 9)}) == Gpus{Gpu(1, 80), Gpu(2, 9)});
  CHECK(Says(ChooseGpus(job.request, 16 * kGiB, {Gpu(0, 8), Gpu(1, 80)}).status(), StatusCode::kFailedPrecondition,
             "needs 2 GPUs with 9.0 GiB and 1.0 GiB of host memory; this node has gpu0 with 8.0 GiB, gpu1 with 80.0 GiB"));
}

TEST_CASE("a node's GPU is used once it is found, also where the job has come before") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All());
  auto& n2 = net.Add({Role::kContributor}, kMemory, {Gpu(1, 8)});
  const JobId id = net.Submit(n1, JobYaml("  count: 2\n"));
  REQUIRE(net.Finishes(id));
  INFO(net.Job(id).reason);
  CHECK(net.Job(id).verdict == wire::Verdict::kSucceeded);
  CHECK(n1.devices == std::vector<std::string>{"cpu"});
  CHECK(n2.devices == std::vector<std::string>{"gpu1"});
  CHECK_FALSE(net.HasEvent("computes on the CPU"));
}

TEST_CASE("with device auto a GPU that cannot be used is a warning, and the CPU is used") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All(), kMemory, {Gpu(1, 8)});
  n1.gpu_trouble = absl::UnavailableError("the worker exited: no kernel image is available");
  std::vector<std::string> expected = {"gpu1", "cpu"};
  SECTION("from the start on") {}
  SECTION("and stays in use when the worker has to start again") {
    auto failures = std::make_shared<int>(1);
    n1.fault = [failures](std::string_view call, RoundId) {
      if (call != "run" || (*failures)-- != 1) return absl::OkStatus();
      return absl::UnavailableError("killed by SIGSEGV");
    };
    expected.push_back("cpu");
  }
  const JobId id = net.Submit(n1, JobYaml("  count: 1\n"));
  REQUIRE(net.Finishes(id));
  INFO(net.Job(id).reason);
  CHECK(net.Job(id).verdict == wire::Verdict::kSucceeded);
  CHECK(n1.devices == expected);
  CHECK(net.HasEvent("computes on the CPU, since gpu1 cannot be used: the worker exited: no kernel "
                     "image is available"));
}

TEST_CASE("with device gpu a GPU that cannot be used ends the job, with the reason") {
  JobNetwork net;
  auto& n1 = net.Add(RoleSet::All(), kMemory, {Gpu(1, 8)});
  n1.gpu_trouble = absl::UnavailableError("no kernel image is available");
  const JobId id = net.Submit(n1, JobYaml("  count: 1\n  device: gpu\n"));
  REQUIRE(net.Finishes(id));
  CHECK(net.Job(id).verdict == wire::Verdict::kFailed);
  CHECK(net.Job(id).reason.find("no kernel image is available") != std::string::npos);
  CHECK(n1.devices == std::vector<std::string>{"gpu1", "gpu1", "gpu1"});
}

}  // namespace
}  // namespace gdf::jobs
