// Devices as a worker lists and opens them, with plugins that are fakes: no GPU is needed. What is
// said of libtorch's CUDA part depends on whether scripts/fetch-libtorch --cuda has been here.
#include "gdfd/worker/gpu.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/temporary_folder.h"

namespace gdf::worker {
namespace {

using Catch::Matchers::Contains;
using train::DeviceList;
using train::GpuDevice;

// A program's folder, whose plugin is the fake of this kind; without a kind there is none.
struct ProgramFolder {
  explicit ProgramFolder(const std::string& kind) {
    if (kind.empty()) return;
    std::filesystem::create_symlink(absl::StrCat(GDF_FAKE_FOLDER, "/fake_", kind, ".so"),
                                    absl::StrCat(path(), "/libgdf_cuda.so"));
  }
  const std::string& path() const { return folder.path(); }
  testing::TemporaryFolder folder;
};

std::string ProblemOf(const std::string& kind) {
  const DeviceList list = ListDevices(ProgramFolder(kind).path());
  CHECK(list.devices.empty());
  return list.problem;
}

// Where libtorch is.
std::filesystem::path TorchFolder() {
  Dl_info info{};
  REQUIRE(dladdr(reinterpret_cast<void*>(&at::set_num_threads), &info) != 0);
  return std::filesystem::canonical(std::filesystem::path(info.dli_fname).parent_path());
}

// Whether libtorch's CUDA part could be loaded. Without what --cuda fetches it can be all the same
// where the system has the libraries; an error says what to do.
bool HasTorchCuda(const std::string& problem) {
  const bool fetched = std::filesystem::exists(TorchFolder().parent_path() / "CUDA_COMPLETE");
  const bool missing = problem.find("libtorch's CUDA part") != std::string::npos;
  INFO(problem);
  CHECK_FALSE((fetched && missing));
  if (missing) {
    CHECK_THAT(problem, Contains("cannot open shared object file") &&
                            Contains("scripts/fetch-libtorch --cuda"));
  }
  return !missing;
}

}  // namespace

TEST_CASE("a machine without plugin, driver or device lists none and says why") {
  CHECK_THAT(ProblemOf(""), Contains("libgdf_cuda.so: No such file"));
  CHECK_THAT(ProblemOf("stranger"), Contains("has no function gdf_cuda_plugin"));
  CHECK_THAT(ProblemOf("driverless"), Contains("no NVIDIA driver is loaded") &&
                                          Contains("install NVIDIA's driver, version 580"));
  CHECK(ProblemOf("deviceless") == "CUDA: the NVIDIA driver shows no device");
  CHECK_THAT(ProblemOf("endless_message"), Contains("xxx"));
}

TEST_CASE("devices that are too old, and a missing CUDA part of libtorch, are left out by name") {
  const DeviceList list = ListDevices(ProgramFolder("half_old").path());
  CHECK_THAT(list.problem, Contains("fake 1 has compute capability 7.0, expected 8.0 or newer"));
  if (HasTorchCuda(list.problem)) {
    REQUIRE(list.devices.size() == 1);
    CHECK(list.devices[0].index == 0);
    CHECK(list.devices[0].name == "fake 0");
    CHECK(list.devices[0].compute_capability == "9.0");
    CHECK(list.devices[0].memory_bytes == 1 << 20);
    const DeviceList both = ListDevices(ProgramFolder("good").path());
    CHECK(both.devices.size() == 2);
    CHECK(both.problem.empty());
  } else {
    CHECK(list.devices.empty());
  }
}

TEST_CASE("a worker that cannot use its GPU says what is missing") {
  const ProgramFolder folder("good");
  const absl::StatusOr<GpuLibraries> libraries = GpuLibraries::Load(folder.path());
  if (!HasTorchCuda(std::string(libraries.status().message()))) {
    CHECK(absl::IsFailedPrecondition(libraries.status()));
    return;
  }
  INFO(libraries.status());
  REQUIRE(libraries.ok());
  CHECK(libraries->folder() == TorchFolder());
  // The plugin shows a device that is none: libtorch has another opinion.
  const absl::StatusOr<std::vector<GpuDevice>> opened = libraries->Open(1);
  if (opened.ok()) return;  // this machine has a device, and the test is for those without
  CHECK_THAT(std::string(opened.status().message()),
             Contains("opening fake 0: ") && Contains("NVIDIA driver"));
}

TEST_CASE("the plugin is looked for beside the program") {
  const absl::StatusOr<GpuLibraries> libraries = GpuLibraries::Load("/nowhere");
  CHECK(absl::IsNotFound(libraries.status()));
  CHECK_THAT(std::string(libraries.status().message()), Contains("/nowhere/libgdf_cuda.so"));
}

}  // namespace gdf::worker
