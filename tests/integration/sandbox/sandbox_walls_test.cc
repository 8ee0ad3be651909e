// A hostile worker under the sandbox of every worker tries what a hostile job would; run as root it
// would succeed at all of it without the sandbox.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>

#include "absl/algorithm/container.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/train/unique_fd.h"
#include "world.h"

namespace gdf::supervisor {
namespace {

void RequireRoot() {
  if (geteuid() == 0) return;
  std::cerr << "skipped: needs root, so that only the sandbox can be what refuses" << std::endl;
  std::exit(77);
}

bool Refused(const std::string& outcome) {
  return outcome == "EPERM" || outcome == "EACCES" || outcome == "ENOENT";
}

// A listener on the loopback interface that would take the connection.
std::pair<train::UniqueFd, int> Listen() {
  train::UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(bind(fd.get(), generic, length) == 0);
  REQUIRE(listen(fd.get(), 1) == 0);
  REQUIRE(getsockname(fd.get(), generic, &length) == 0);
  return {std::move(fd), ntohs(address.sin_port)};
}

TEST_CASE("a worker cannot connect out") {
  RequireRoot();
  World world;
  const auto [listener, port] = Listen();
  const auto worker = world.StartLoaded();
  CHECK(world.Order(*worker, absl::StrCat("connect ", port)) == "EPERM");
}

TEST_CASE("a worker cannot open the daemon's files or anyone's") {
  RequireRoot();
  World world;
  char folder[] = "/tmp/gdf-state-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  const std::string key = absl::StrCat(folder, "/node.key");
  const absl::Cleanup remove = [&] {
    unlink(key.c_str());
    rmdir(folder);
  };
  std::ofstream(key) << "secret";
  const auto worker = world.StartLoaded();
  for (const std::string& path :
       {std::string(folder), key, std::string("/etc/passwd"), std::string("/proc/self/maps"),
        std::string("/"), std::string("/dev/null")}) {
    INFO(path);
    CHECK(Refused(world.Order(*worker, "open " + path)));
  }
}

// The driver's needs keep the root and some folders open to reading; the rest is closed as ever.
TEST_CASE("a worker on a GPU reads libraries, and nothing of anyone's") {
  RequireRoot();
  World world;
  WorkerOptions options;
  const bool several = GENERATE(false, true);
  options.gpus = several ? std::vector<int64_t>{0, 1} : std::vector<int64_t>{0};
  const auto starting = world.Start(options);
  const absl::StatusOr<SandboxReport> report = world.Await(starting->Ready());
  REQUIRE(report.ok());
  if (!absl::c_linear_search(report->in_force, "no file access (Landlock)")) {
    std::cerr << "skipped: this kernel has no Landlock" << std::endl;
    std::exit(77);
  }
  char folder[] = "/tmp/gdf-state-XXXXXX";
  REQUIRE(mkdtemp(folder) != nullptr);
  REQUIRE(chmod(folder, 0755) == 0);  // so that it is not the owner's right that refuses
  const std::string key = absl::StrCat(folder, "/node.key");
  const absl::Cleanup remove = [&] {
    unlink(key.c_str());
    rmdir(folder);
  };
  std::ofstream(key) << "secret";
  const auto [listener, port] = Listen();
  const auto worker = world.StartLoaded(options);
  for (const std::string& path : {std::string(folder), key, std::string("/"), std::string("/tmp"),
                                  std::string("/root"), std::string("/home")}) {
    INFO(path);
    CHECK(Refused(world.Order(*worker, "open " + path)));
  }
  for (const char* path : {"/usr/lib", "/dev/null", "/proc/self/maps"}) {
    INFO(path);
    CHECK(world.Order(*worker, absl::StrCat("open ", path)) == "OK");
  }
  CHECK(world.Order(*worker, absl::StrCat("connect ", port)) != "OK");
  CHECK((world.Order(*worker, "connect-to-itself") == "OK") == several);
  CHECK(world.Order(*worker, "fork") == "EPERM");
  CHECK(world.Order(*worker, "exec /bin/true") == "EPERM");
  for (const char* order : {"ptrace", "read-memory", "kill"}) {
    INFO(order);
    CHECK(world.Order(*worker, absl::StrCat(order, " ", getpid())) == "EPERM");
  }
}

TEST_CASE("a worker cannot trace, read or signal the daemon") {
  RequireRoot();
  World world;
  const auto worker = world.StartLoaded();
  for (const char* order : {"ptrace", "read-memory", "kill"}) {
    INFO(order);
    CHECK(world.Order(*worker, absl::StrCat(order, " ", getpid())) == "EPERM");
  }
}

TEST_CASE("a worker cannot make processes, run programs or enter namespaces") {
  RequireRoot();
  World world;
  const auto worker = world.StartLoaded();
  CHECK(world.Order(*worker, "fork") == "EPERM");
  CHECK(world.Order(*worker, "exec /bin/true") == "EPERM");
  CHECK(world.Order(*worker, "nested-namespaces") == "EPERM");
}

TEST_CASE("a worker cannot resize a shared segment or write to the one it reads") {
  World world;
  const auto worker = world.StartLoaded();
  const std::vector<float> theta(6);
  REQUIRE(world.Await(worker->Apply({RoundId{0}, 0, theta})).ok());
  CHECK(world.Order(*worker, "resize-segment") == "EPERM");
  CHECK(world.Order(*worker, "write-theta") == "EPERM");
}

TEST_CASE("a worker started by root is nobody that anything else is") {
  RequireRoot();
  World world;
  const auto worker = world.StartLoaded();
  int user = 0;
  REQUIRE(absl::SimpleAtoi(world.Order(*worker, "user"), &user));
  CHECK((user == 65534 || user >= 1'900'000'000));
}

TEST_CASE("the report names the walls that every worker has") {
  World world;
  const auto worker = world.Start();
  const absl::StatusOr<SandboxReport> report = world.Await(worker->Ready());
  INFO(report.status());
  REQUIRE(report.ok());
  const auto has = [&](const std::string& wall) {
    return std::count(report->in_force.begin(), report->in_force.end(), wall) == 1;
  };
  CHECK(has("no new privileges"));
  CHECK(has("system-call filter"));
  CHECK(has("no capabilities"));
  // Without a limit being asked for, status is told so.
  CHECK(report->missing.back() ==
        "memory limit: set limits.memory in gdfd.yaml, or start gdfd by its systemd unit");
  // Of the walls that this machine does not have, each with what helps.
  for (size_t i = 0; i + 1 < report->missing.size(); ++i) {
    CHECK(report->missing[i].find("; ") != std::string::npos);
  }
  for (const std::string& wall : report->in_force) std::cerr << "in force: " << wall << std::endl;
  for (const std::string& wall : report->missing) std::cerr << "missing: " << wall << std::endl;
}

}  // namespace
}  // namespace gdf::supervisor
