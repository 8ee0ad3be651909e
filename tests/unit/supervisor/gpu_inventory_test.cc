// What a node makes of the answers of a gdf-worker, which are shell scripts here.
#include "gdfd/supervisor/gpu_inventory.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/executor.h"
#include "tests/support/temporary_folder.h"

namespace gdf::supervisor {
namespace {

using Catch::Matchers::Contains;
namespace fs = std::filesystem;

void Write(const std::string& path, const std::string& text) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << text;
}

struct World {
  SystemClock clock;
  LoopExecutor executor{clock};
  testing::TemporaryFolder folder;
  std::vector<train::GpuDevice> devices;
  int found = 0;

  // Asks a worker that is this script, and waits for it twice.
  std::string ProblemOf(const std::string& script, absl::Duration deadline = absl::Seconds(60)) {
    const std::string program = folder.path() + "/gdf-worker";
    Write(program, "#!/bin/sh\n" + script);
    chmod(program.c_str(), 0755);
    GpuInventory gpus(executor, program, [this] { ++found; }, deadline);
    CHECK(gpus.devices().empty());
    TaskScope scope(executor);
    int waiting = 2;
    scope.Spawn(Wait(&gpus, &waiting));
    scope.Spawn(Wait(&gpus, &waiting));
    executor.Run();
    executor.Resume();
    CHECK(devices == gpus.devices());
    return gpus.problem();
  }
  Task<void> Wait(GpuInventory* gpus, int* waiting) {
    devices = co_await gpus->Wait();
    if (--*waiting == 0) executor.Stop();
  }
};

constexpr char kList[] =
    R"({"devices":[{"index":1,"name":"A","compute_capability":"9.0","memory_bytes":5}],"problem":"B is old"})";

}  // namespace

TEST_CASE("the worker's list is what there is") {
  World world;
  CHECK(world.ProblemOf(std::string("test \"$*\" = --list-devices && echo '") + kList + "'") ==
        "B is old");
  CHECK(world.devices == std::vector<train::GpuDevice>{{1, "A", "9.0", 5}});
  CHECK(world.found == 1);
}

TEST_CASE("a worker that gives no list is a problem that says why, and no devices") {
  World world;
  CHECK_THAT(world.ProblemOf("echo nonsense"),
             Contains("GPUs cannot be listed: ") && Contains("not a JSON object"));
  CHECK_THAT(world.ProblemOf("echo 'the driver is broken' >&2; exit 1"),
             Contains("status 1; its last line: the driver is broken"));
  CHECK_THAT(world.ProblemOf("yes"), Contains("printed more than 64.0 KiB"));
  CHECK_THAT(world.ProblemOf("exec sleep 1000", absl::Milliseconds(200)),
             Contains("did not end within 200 ms"));
  CHECK(world.devices.empty());
  CHECK(world.found == 4);
}

TEST_CASE("where there is no GPU nothing is asked") {
  World world;
  GpuInventory gpus(world.executor, std::nullopt, [&] { ++world.found; });
  TaskScope scope(world.executor);
  int waiting = 1;
  scope.Spawn(world.Wait(&gpus, &waiting));
  world.executor.Run();
  CHECK(world.devices.empty());
  CHECK(gpus.problem().empty());
  CHECK(world.found == 0);
}

TEST_CASE("a GPU is suspected by the driver's files, or by the card where there is no driver") {
  testing::TemporaryFolder folder;
  const std::string& root = folder.path();
  CHECK_FALSE(MayHaveGpu(root));
  Write(root + "/sys/bus/pci/devices/0000:00:1f.0/vendor", "0x8086\n");
  Write(root + "/sys/bus/pci/devices/0000:00:1f.0/class", "0x030000\n");
  Write(root + "/sys/bus/pci/devices/0000:01:00.1/vendor", "0x10de\n");  // the card's sound
  Write(root + "/sys/bus/pci/devices/0000:01:00.1/class", "0x040300\n");
  CHECK_FALSE(MayHaveGpu(root));
  SECTION("a card") {
    Write(root + "/sys/bus/pci/devices/0000:01:00.0/vendor", "0x10de\n");
    Write(root + "/sys/bus/pci/devices/0000:01:00.0/class", "0x030200\n");
  }
  SECTION("a device file") { Write(root + "/dev/nvidiactl", ""); }
  SECTION("a module") { Write(root + "/proc/driver/nvidia/version", "580"); }
  CHECK(MayHaveGpu(root));
}

}  // namespace gdf::supervisor
